#!/bin/sh
# Duties: what is overdue starves the watchdog, what the database does not.
# With a server of its own, that is stopped and started.
unset SYSTEM_CLUSTER
. "$(dirname "$0")/daemon-lib.sh"
. "$(dirname "$0")/admin-lib.sh"
if ! command -v curl >/dev/null; then
	echo "# skipped: curl is missing"
	exit 0
fi
begin_daemon duties
with_admin
sed -i '/^database:/s/}/, statement_timeout: 300ms}/' "$T/outboxd.yaml"
NOTIFY_SOCKET=$T/notify.sock
WATCHDOG_USEC=1000000
export NOTIFY_SOCKET WATCHDOG_USEC
"$BUILD/tests/system/notify-sink" "$NOTIFY_SOCKET" >"$T/notified" &
DAEMONS="$DAEMONS $!"
wait_for $SLOW test -S "$NOTIFY_SOCKET"
pings() {
	grep -c WATCHDOG=1 "$T/notified"
}
has_pinged() { # COUNT
	[ "$(pings)" -ge "$1" ]
}
lock() { # TABLE: until $LOCK is killed
	psql -Xq -c "BEGIN; LOCK TABLE $1 IN ACCESS EXCLUSIVE MODE;
	    SELECT pg_sleep(300)" >/dev/null 2>&1 &
	LOCK=$!
	DAEMONS="$DAEMONS $LOCK"
	wait_for $SLOW sql_is 1 "SELECT count(*) FROM pg_locks
	    WHERE relation = '$1'::regclass AND mode = 'AccessExclusiveLock'
	    AND granted"
}
unlock() {
	sql "SELECT pg_terminate_backend(pid) FROM pg_locks
	    WHERE mode = 'AccessExclusiveLock' AND relation::regclass::text
	    LIKE 'outbox.%'" >/dev/null
	wait $LOCK 2>/dev/null
}

handler quick </dev/null
handler slow <<'EOT'
: >"$T/run/begun"
while [ ! -e "$T/go" ]; do sleep 0.05; done
EOT
launch
wait_for $SLOW answers /readyz 200

# ---- the database is away for longer than anything may be overdue ----
server_stop immediate
passes "a database that is away starves no watchdog" \
    wait_for $SLOW has_pinged $(($(pings) + 28)) # 14 s; the limit is 10
is "and makes nothing overdue" "$(code /healthz) $(logged event=duty_overdue)" "200 0"
server_start
wait_for $SLOW answers /readyz 200
publish quick >/dev/null
passes "when it is back work goes on" delivered quick 1

# ---- it refuses: that is an answer ----
sql "ALTER FUNCTION outbox.claim RENAME TO claim_away"
passes "claims that are refused are not overdue" \
    wait_for $SLOW has_pinged $(($(pings) + 28))
is "but are told" "$([ "$(logged 'event=claim_failed.*sqlstate=42883')" -gt 0 ] &&
    echo yes) $(logged event=duty_overdue)" "yes 0"
sql "ALTER FUNCTION outbox.claim_away RENAME TO claim"
publish quick >/dev/null
passes "and go on when they are not" delivered quick 2

# ---- a claim that hangs, though the database answers ----
lock outbox.lane
passes "claims that are never answered are overdue" \
    wait_for $SLOW answers /healthz 503
is "health says which" "$(ask /healthz)" "overdue: claim"
passes "so does the log" wait_for $SLOW grep -q \
    'level=error event=duty_overdue.*duty=claim' "$T/daemon.log"
is "and metrics" "$(metric 'outboxd_duty_overdue{duty="claim"}')" 1
before=$(pings)
sleep 2
is "the watchdog is not fed" "$([ "$(pings)" -le $((before + 1)) ] && echo starved)" starved
unlock
passes "it is when claims are answered" wait_for $SLOW has_pinged $((before + 4))
is "and health is back" "$(ask /healthz)" ok

# ---- a settle that hangs ----
publish slow >/dev/null
wait_for $SLOW test -e "$T/run/begun"
lock outbox.receipt
: >"$T/go"
passes "settles that are never answered are overdue" wait_for $SLOW sh -c \
    "curl -s --unix-socket '$SOCKET' http://d/v1/status |
    grep -q '\"duty\":\"settle\",\"age_ms\":[0-9]*,\"overdue\":true'"
before=$(pings)
sleep 2
is "the watchdog is not fed then either" \
    "$([ "$(pings)" -le $((before + 1)) ] && echo starved)" starved
unlock
passes "the verdict is recorded after all" delivered slow 1
passes "and the watchdog is fed" wait_for $SLOW has_pinged $((before + 4))

# ---- the page ----
kill -USR1 "$DAEMON"
passes "SIGUSR1 tells when each duty was done" wait_for $SLOW sh -c \
    "[ \$(grep -c 'event=state_duty.*duty=[a-z]* done_age_ms=[0-9]* overdue=false' \
    '$T/daemon.log') = 5 ]"
stop_daemon
is "it stops with 0" $? 0

# ---- who holds the horizon ----
# A minute is not waited for.
sooner() { # OLDER
	sql "SELECT pg_get_functiondef('outbox.horizon_holders(interval)'::regprocedure)" |
	    sed "s/p_older interval DEFAULT '[^']*'/p_older interval DEFAULT '$1'/" \
		>"$T/holders.sql"
	psql -Xq -f "$T/holders.sql"
}
mkfifo "$T/old"
PGAPPNAME=nightly psql -XAtq <"$T/old" >"$T/old.out" 2>&1 &
exec 8>"$T/old"
echo "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_backend_pid();" >&8
wait_for $SLOW test -s "$T/old.out"
old=$(cat "$T/old.out")
sooner 0
: >"$T/daemon.log"
launch
passes "an old transaction that keeps dead rows is named" wait_for $SLOW grep -q \
    "level=warn event=horizon_held.* pid=$old .*application=nightly.*pg_terminate_backend" \
    "$T/daemon.log"
sed "s/< clock_timestamp() - p_older/< clock_timestamp()/" \
    "$T/holders.sql" >"$T/at-once.sql"
psql -Xq -f "$T/at-once.sql"
exits "status tells it, too" 1 ctl -c "$T/outboxd.yaml" --json status
like "with what ends it" "$OUT" "*horizon_held*pg_terminate_backend($old)*"
echo "COMMIT;" >&8
exec 8>&-
passes "and no more when it has ended" wait_for $SLOW sh -c \
    "'$OUTBOXCTL' -c '$T/outboxd.yaml' --json status | grep -q '\"horizon_holders\": *\[\]'"
stop_daemon
