#!/bin/sh
# The database goes away under load and comes back; a server of its own.
unset SYSTEM_CLUSTER
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon outage
cat >>"$T/outboxd.yaml" <<'YAML'
dispatch: {deadline: 20s, kill_grace: 1s, settle_margin: 2s}
YAML

# As long as $T/slow exists a run takes until it is gone.
handler work 'concurrency: 8' <<'SH'
exec 9>"$T/lock/$OUTBOX_EVENT_ID"
flock -n 9 || echo "$OUTBOX_EVENT_ID" >>"$T/run/overlap"
echo "$OUTBOX_EVENT_ID" >>"$T/run/began"
while [ -e "$T/slow" ]; do sleep 0.05; done
echo "$OUTBOX_EVENT_ID" >>"$T/run/ended"
SH
start_daemon "$T/outboxd.yaml"
total=0

# ---- stopped and started under load ----
for mode in fast immediate; do
	: >"$T/run/began"
	publish work 60 >/dev/null
	total=$((total + 60))
	wait_for $SLOW has_lines 10 "$T/run/began"
	server_stop $mode
	server_start
	passes "after a $mode stop under load all are delivered" delivered work $total
	is "no process was lost: the daemon is the same" \
	    "$(kill -0 $DAEMON && echo same)" same
done
is "none ran twice at the same moment" "$(lines "$T/run/overlap")" 0
is "a lost link is no failure of a handler" "$(sql "SELECT count(*)
    FROM outbox.attempts WHERE outcome NOT IN ('interrupted', 'not_started')")" 0

# ---- handlers that end while the database is away ----
: >"$T/slow"
: >"$T/run/began" >"$T/run/ended"
publish work 8 >/dev/null
total=$((total + 8))
wait_for $SLOW has_lines 8 "$T/run/began"
server_stop immediate
rm "$T/slow"
wait_for $SLOW has_lines 8 "$T/run/ended"
: >"$T/daemon.log"
server_start
passes "what ended while the database was away is acknowledged when it is back" \
    delivered work $total
is "and did not run again" "$(lines "$T/run/ended")" 8
is "by the claims of before" \
    "$(logged 'event=settled.*verdict=ack.*answer=done')" 8

# ---- a long outage ----
: >"$T/daemon.log"
server_stop fast
sleep 20 # an outage is a time, nothing can be waited for
is "an outage of 20 s is told in few lines" \
    "$([ "$(lines "$T/daemon.log")" -lt 60 ] && echo few || lines "$T/daemon.log")" few
is "and something is" \
    "$([ "$(logged 'level=\(warn\|error\)')" -gt 0 ] && echo told)" told
server_start
before=$(now_ms)
publish work 20 >/dev/null
total=$((total + 20))
passes "work goes on after it" delivered work $total
took=$(($(now_ms) - before))
is "soon after the database is back" \
    "$([ $took -lt 15000 ] && echo soon || echo $took ms)" soon
is "and listens again" "$(sql "SELECT count(*) > 0 FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND application_name LIKE 'outboxd%'")" t

# ---- a server that refuses for a while, and links that are cut ----
i=0
while [ $i -lt 5 ]; do
	i=$((i + 1))
	: >"$T/run/began"
	publish work 12 >/dev/null
	total=$((total + 12))
	wait_for $SLOW has_lines 4 "$T/run/began"
	sql "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
	    WHERE datname = current_database() AND pid <> pg_backend_pid()" >/dev/null
done
passes "five times all links cut at once: all are delivered" delivered work $total
is "none ran twice at the same moment" "$(lines "$T/run/overlap")" 0
stop_daemon TERM
is "the daemon stops with 0" $? 0
