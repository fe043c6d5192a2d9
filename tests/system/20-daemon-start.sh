#!/bin/sh
# From the command line to READY, what signals do, and every exit status.
. "$(dirname "$0")/daemon-lib.sh"
begin start
daemon_config "$T/outboxd.yaml"

# ---- the command line and the file ----
exits "an unknown flag is 64" 64 "$OUTBOXD" --no-such-flag
exits "an argument too many is 64" 64 "$OUTBOXD" -c "$T/outboxd.yaml" more
exits "--version is 0" 0 "$OUTBOXD" --version
like "and prints it" "$OUT" "outboxd [0-9]*"
exits "-t of a good file is 0" 0 "$OUTBOXD" -t -c "$T/outboxd.yaml"
like "and prints what counts" "$OUT" "*poll_interval: 1s*"
printf 'dispatch: {batch: 500, colour: red}\n' >"$T/bad.yaml"
exits "-t of a bad one is 78" 78 "$OUTBOXD" -t -c "$T/bad.yaml"
like "with file, line and column" "$ERR" "*bad.yaml:1:24: *colour*"
exits "so is a start with it" 78 "$OUTBOXD" -c "$T/bad.yaml"
exits "a file that is not there is 78" 78 "$OUTBOXD" -c "$T/none.yaml"
printf 'dispatch: {lease: 10s, deadline: 10s}\n' >"$T/bad.yaml"
exits "a lease too short for the deadline is 78" 78 "$OUTBOXD" -t -c "$T/bad.yaml"
like "with the numbers" "$ERR" "*15s*"

# ---- logins and schemas that do not fit ----
sed "s/user=$PGUSER/user=nobody_at_all/" "$T/outboxd.yaml" >"$T/who.yaml"
exits "a login that the database refuses is 77" 77 \
    timeout $SLOW "$OUTBOXD" -c "$T/who.yaml"
like "and it is said" "$ERR" "*event=refused*"

launch
wait_for $SLOW grep -q 'event=schema_unfit' "$T/daemon.log"
is "without the schema the daemon waits" "$(kill -0 $DAEMON && echo waits)" waits
stop_daemon TERM
is "and can be stopped meanwhile" $? 0
launch
wait_for $SLOW grep -q 'event=schema_unfit' "$T/daemon.log"
ctl schema install >/dev/null 2>&1
passes "a schema installed later is found" wait_for $SLOW \
    grep -q 'event=ready' "$T/daemon.log"
stop_daemon TERM

bare=role_$$
sql "CREATE ROLE $bare LOGIN"
sed "s/user=$PGUSER/user=$bare/" "$T/outboxd.yaml" >"$T/who.yaml"
exits "a login without the dispatcher's rights is 77" 77 \
    timeout $SLOW "$OUTBOXD" -c "$T/who.yaml"
sql "GRANT outbox_dispatcher TO $bare"
start_daemon "$T/who.yaml"
is "the role outbox_dispatcher suffices" $? 0
stop_daemon TERM
sql "DROP OWNED BY $bare; DROP ROLE $bare"

sql "ALTER FUNCTION outbox.schema_version() RENAME TO was_version;
    CREATE FUNCTION outbox.schema_version() RETURNS int LANGUAGE sql
    AS 'SELECT 9999'"
exits "a schema newer than the daemon is 76" 76 \
    timeout $SLOW "$OUTBOXD" -c "$T/outboxd.yaml"
sql "DROP FUNCTION outbox.schema_version();
    ALTER FUNCTION outbox.was_version() RENAME TO schema_version"

# ---- signals ----
: >"$T/daemon.log"
start_daemon "$T/outboxd.yaml"
cp "$T/outboxd.yaml" "$T/good.yaml"
echo 'dispatch: {batch: none}' >>"$T/outboxd.yaml"
kill -HUP $DAEMON
passes "HUP with a bad file is refused" wait_for $SLOW \
    grep -q 'event=reload_refused.*outboxd.yaml:4:' "$T/daemon.log"
is "and the daemon lives" "$(kill -0 $DAEMON && echo lives)" lives
{
	cat "$T/good.yaml"
	echo 'dispatch: {concurrency: 7}'
	echo 'memory: {max_items: 99}'
} >"$T/outboxd.yaml"
kill -HUP $DAEMON
passes "HUP with a good file takes it" wait_for $SLOW \
    grep -q 'event=reloaded' "$T/daemon.log"
is "a changed key is named" \
    "$(logged 'event=config_changed.*dispatch.concurrency')" 1
is "one that needs a restart is named so" \
    "$(logged 'level=warn.*event=config_changed.*memory.max_items\|event=config_changed.*restart.*memory.max_items')" 1
kill -USR1 $DAEMON
passes "USR1 dumps the state" wait_for $SLOW \
    grep -q 'event=state_claims' "$T/daemon.log"
is "with the budget as it was" "$(logged 'event=state_bus.*max_items=1024')" 1
is "and both links" "$(logged 'event=state_link.*state=up')" 2
kill -USR2 $DAEMON
passes "USR2 changes the log level" wait_for $SLOW \
    grep -q 'event=log_level.*level=debug' "$T/daemon.log"
stop_daemon INT
is "INT stops it as TERM does" $? 0
is "and it says so" "$(logged 'event=stopped')" 1
is "and goodbye to the database" \
    "$(sql "SELECT bool_and(stopping) FROM outbox.daemons")" t

# ---- log formats ----
{
	cat "$T/good.yaml"
	echo 'log: {format: json, level: debug}'
} >"$T/outboxd.yaml"
: >"$T/daemon.log"
start_daemon "$T/outboxd.yaml"
stop_daemon TERM
is "log.format json: every line is an object with its event" "$(psql -XAtq \
    -v text="$(cat "$T/daemon.log")" <<-'SQL'
	SELECT count(*) > 3 AND bool_and(l::json ->> 'event' IS NOT NULL)
	  FROM regexp_split_to_table(:'text', E'\n') l;
	SQL
)" t
