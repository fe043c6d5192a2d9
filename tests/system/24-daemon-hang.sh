#!/bin/sh
# Handlers that do not end: they are ended, with all that they started, and
# nobody else waits for it.
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon hang
echo 'dispatch: {kill_grace: 700ms, settle_margin: 5s}' >>"$T/outboxd.yaml"

# Ignores TERM and is in its own way; the second attempt is good.
CONTRACT=shop.ordered@v1 handler hung 'deadline: 1s' 'concurrency: 1' \
    'retry: {base: 50ms, cap: 50ms}' <<'SH'
exec 9>"$T/lock/$OUTBOX_EVENT_ID" # held by all that it starts
flock -n 9 || echo overlap >>"$T/run/overlap"
[ "$OUTBOX_ATTEMPT" = 1 ] || exit 0
trap ': >"$T/run/term"' TERM
echo $$ >"$T/run/leader"
# one of its group, one double-forked into a session of its own
sleep 1000 & echo $! >>"$T/run/pids"
setsid sh -c 'sh -c "echo \$\$ >>$0/run/pids; trap \"\" TERM; : >$0/run/escaped
    while :; do sleep 1; done" "$0" &' "$T"
while :; do sleep 0.1; done
SH
CONTRACT=shop.ordered@v1 handler healthy <<'SH'
cat >/dev/null
SH
# Ends in time, but leaves company that holds its descriptors.
handler litter 'deadline: 20s' <<'SH'
sleep 1000 &
echo $! >>"$T/run/left"
setsid sleep 1000 &
echo $! >>"$T/run/left"
(setsid sh -c 'echo $$ >>'"$T/run/left"'; exec sleep 1000' &)
until [ "$(grep -c . "$T/run/left")" = 3 ]; do sleep 0.02; done
SH
# Dies of TERM properly.
handler polite 'deadline: 500ms' 'concurrency: 1' \
    'retry: {base: 50ms, cap: 50ms, max_attempts: 2}' <<'SH'
exec sleep 1000
SH

alive() { # PID...: how many of them live
	n=0
	for pid; do
		ended "$pid" || n=$((n + 1))
	done
	echo $n
}
none_alive() {
	[ "$(alive "$@")" = 0 ]
}

start_daemon "$T/outboxd.yaml"
sql "SELECT outbox.publish('shop.ordered', 'v1', '{}')" >/dev/null
delivered healthy 1
wait_for $SLOW sql_is 1 "SELECT count(*) FROM outbox.attempts
    WHERE subscriber_id = 'test.hung.run'"
is "the healthy one is delivered while the other hangs" \
    "$(sql "SELECT d.delivered_at < a.ended_at
    FROM outbox.deliveries d, outbox.attempts a
    WHERE d.subscriber_id = 'test.healthy.run'
    AND a.subscriber_id = 'test.hung.run'")" t
is "the hung one is timed_out and retried" \
    "$(attempts hung "outcome, verdict, signal")" "timed_out|retry|9"
is "all inside its lease" "$(sql "SELECT ended_at - published_at < interval '60 s'
    FROM outbox.attempts JOIN outbox.facts USING (event_id)")" t
is "it got TERM first" "$([ -e "$T/run/term" ] && echo got)" got
is "and KILL when deadline and grace were over, not before" \
    "$(sql "SELECT run_ms >= 1690 FROM outbox.attempts")" t
passes "its group is gone, and what double-forked away from it" \
    wait_for $SLOW none_alive $(cat "$T/run/leader" "$T/run/pids")
is "all three had been there" "$(lines "$T/run/pids")$([ -e "$T/run/escaped" ] && echo +)" 2+
passes "and the second attempt is delivered" delivered hung 1
is "which nothing of the first one overlapped" "$(lines "$T/run/overlap")" 0

publish litter >/dev/null
passes "a handler's exit decides, whoever holds its descriptors" delivered litter 1
passes "what it left is killed" wait_for $SLOW none_alive $(cat "$T/run/left")
passes "and reported" wait_for $SLOW grep -q \
    'event=leftovers_killed.*test.litter.run' "$T/daemon.log"

publish polite >/dev/null
wait_status polite paused
is "one that dies of our TERM has timed out, too: no crash is counted" \
    "$(delivery polite "pause_reason, attempt_count, crash_count")" \
    "retry_budget_exhausted|2|0"
is "with its signal" "$(attempts polite "outcome, signal")" \
    "timed_out|15 timed_out|15"
is "nothing is left as a zombie" \
    "$(ps --ppid $DAEMON -o stat= | grep -c Z)" 0
stop_daemon TERM
is "the daemon stops with 0" $? 0
