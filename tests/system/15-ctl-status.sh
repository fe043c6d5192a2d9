#!/bin/sh
# status and reload; what is said of a database that is not there.
. "$(dirname "$0")/lib.sh"
begin ctl-status
ctl schema install >/dev/null 2>&1
W=11111111-1111-4111-8111-111111111111

heartbeat() { # TARGETS STOPPING
	sql "SELECT FROM outbox.heartbeat('$W', 'host1', 42, '0', '{$1}',
	    1000000, 300000, ${2:-false})"
}

codes() {
	json "$OUT" problems | grep -o '"code": *"[a-z_]*"' |
	    sed 's/.*: *"\(.*\)"/\1/' | paste -sd' '
}

# ---- status ----
exits "no daemon is 69" 69 ctl --json status
is "unavailable" "$(json "$OUT" status)" unavailable
is "because of it" "$(codes)" no_daemon
heartbeat ""
exits "a living daemon and nothing to do is 0" 0 ctl --json status
is "healthy" "$(json "$OUT" status)" healthy
is "with the daemon" "$(json "$OUT" daemons,0,host)" host1
ctl contract add shop.ordered@v1 >/dev/null
plugin_make "$T/p" acme.mail 1 send shop.ordered@v1 </dev/null
ctl plugin install "$T/p" --store "$STORE" >/dev/null
heartbeat ""
exits "an inactive plugin is no problem" 0 ctl status
ctl plugin activate acme.mail@1 --grant-all >/dev/null
heartbeat ""
exits "an active one that no daemon has is 1" 1 ctl --json status
is "degraded" "$(json "$OUT" status)" degraded
is "because of that" "$(codes)" no_daemon_has_artifact
target=$(sql "SELECT target_id FROM outbox.targets")
heartbeat "$target"
exits "and 0 when one has it" 0 ctl --json status
event=$(echo '{}' | ctl publish shop.ordered@v1)
heartbeat "$target"
exits "a pending delivery is no problem" 0 ctl --json status
is "and counted" "$(json "$OUT" lanes,0,pending)" 1
ctl delivery pause "$event" acme.mail.send >/dev/null
ctl subscriber pause acme.mail.send --reason x >/dev/null
heartbeat "$target"
exits "a pause is 1" 1 ctl --json status
is "of both kinds" "$(codes)" "deliveries_paused subscriber_paused"
exits "people are told, too" 1 ctl status
like "with what to do" "$OUT" \
    "degraded: *outboxctl subscriber resume acme.mail.send*"
heartbeat "" true
exits "a stopping daemon is none" 69 ctl --json status

# ---- no database ----
exits "no server: 69" 69 env PGHOST="$T" "$OUTBOXCTL" --json status
is "and status says so, in JSON" "$(json "$OUT" status)" unavailable
exits "no such host: 69" 69 env PGHOST=no.such.host.invalid "$OUTBOXCTL" event list
exits "no such database: 78" 78 env PGDATABASE=none "$OUTBOXCTL" event list
exits "no such login: 77" 77 env PGUSER=nobody_at_all "$OUTBOXCTL" event list
secret=kUzzel7
exits "a password is never shown" 69 "$OUTBOXCTL" event list --conninfo \
    "host=$T password=$secret connect_timeout=2"
like "not even in an error" "$(echo "$OUT$ERR" | grep -c $secret)" 0
exits "a broken connection string is 78" 78 "$OUTBOXCTL" event list --conninfo \
    "host=$T password=a $secret"
like "and not shown" "$(echo "$OUT$ERR" | grep -c $secret)" 0
exits "--conninfo wins over the environment" 0 env PGHOST=/none "$OUTBOXCTL" \
    --conninfo "host=$PGHOST dbname=$PGDATABASE user=$PGUSER" event list
psql -Xq -d postgres -c "ALTER DATABASE $PGDATABASE ALLOW_CONNECTIONS false"
exits "a database that takes no connections is no silent success" 69 \
    ctl event list
psql -Xq -d postgres -c "ALTER DATABASE $PGDATABASE ALLOW_CONNECTIONS true"

# ---- config ----
daemon_config "$T/outboxd.yaml"
exits "-c FILE names the database" 0 env PGHOST=/none "$OUTBOXCTL" \
    -c "$T/outboxd.yaml" event list
exits "a config file that is not there is 78" 78 ctl -c "$T/none" event list
echo "colour: red" >"$T/bad.yaml"
exits "a config file that is not good is 78" 78 ctl -c "$T/bad.yaml" event list
like "with line and column" "$ERR" "*bad.yaml:1:1*"
cat >"$T/slow.yaml" <<-YAML
	database:
	  conninfo: "host=$PGHOST user=$PGUSER dbname=$PGDATABASE"
	  statement_timeout: 100ms
YAML
psql -Xq >/dev/null <<-'SQL' &
	BEGIN; LOCK TABLE outbox.fact; SELECT pg_sleep(2);
SQL
wait_for 5 sql_is t "SELECT count(*) > 0 FROM pg_locks
    WHERE relation = 'outbox.fact'::regclass AND mode = 'AccessExclusiveLock'"
exits "a statement that takes too long is 75" 75 ctl -c "$T/slow.yaml" event list
wait

# ---- reload ----
# a shell cannot trap what it was started ignoring, as by nohup
env --default-signal=HUP sh -c 'trap "echo told >>\"$0\"" HUP; : >"$0.ready"; while :; do sleep 0.05; done' \
    "$T/hup" &
pid=$!
DAEMONS="$DAEMONS $pid"
wait_for $SLOW test -e "$T/hup.ready"
exits "reload is 0" 0 ctl --json -c "$T/outboxd.yaml" reload --pid $pid
is "and tells whom" "$(json "$OUT" pid)" $pid
wait_for 5 grep -q told "$T/hup"
is "it was told" "$(grep -c told "$T/hup")" 1
exits "\$MAINPID will do" 0 env MAINPID=$pid "$OUTBOXCTL" -c "$T/outboxd.yaml" reload
wait_for 5 sh -c "[ \$(grep -c told '$T/hup') -eq 2 ]"
exits "a bad file is 78" 78 ctl -c "$T/bad.yaml" reload --pid $pid
is "and nobody is told" "$(grep -c told "$T/hup")" 2
exits "no process named is 64" 64 ctl -c "$T/outboxd.yaml" reload
exits "process 1 is 64" 64 ctl -c "$T/outboxd.yaml" reload --pid 1
exits "--conninfo is 64" 64 ctl --conninfo x reload --pid $pid
sleep 60 &
other=$!
DAEMONS="$DAEMONS $other"
exits "a process that SIGHUP would end is left alone" 69 \
    ctl -c "$T/outboxd.yaml" reload --pid $other
is "it lives" "$(kill -0 $other && echo yes)" yes
kill $other
wait $other 2>/dev/null
exits "a process that is gone is 69" 69 ctl -c "$T/outboxd.yaml" reload --pid $other
