#!/bin/sh
# What may go wrong around a daemon: it is killed, its handlers hang, crash
# it, leave processes, print floods; the database goes away.
. "$(dirname "$0")/lib.sh"
begin daemon-faults
. "$ROOT/tests/system/daemon.sh"

setup "stop: {timeout: 100ms}" \
    "dispatch: {breaker: {failures: 1000}, lease: 8s, deadline: 2s, kill_grace: 500ms, settle_margin: 1s}" \
    "subscribers: {test.puppet.h: {environment: {RECORD: $T/record}, concurrency: 50, deadline: 3s}}"
install puppet hang noise deaf grandchild ok

start_daemon "$T/outboxd.yaml" || exit 1

# ---- a hung handler beside healthy ones ----

e=$(make_do "exit 0")
for s in ok puppet noise deaf grandchild; do
	wait_for 10 sql_is delivered "SELECT status FROM outbox.deliveries
	    WHERE event_id = '$e' AND subscriber_id = 'test.$s.h'" &&
	    ok "$s is delivered beside a hung handler" ||
	    not_ok "$s is delivered beside a hung handler" \
		"$(field "$e" last_error "test.$s.h")"
done
wait_for 20 sql_is paused "SELECT status FROM outbox.deliveries
    WHERE event_id = '$e' AND subscriber_id = 'test.hang.h'"
is "the hung one timed out, each time" "$(sql "SELECT string_agg(outcome, ' ')
    FROM outbox.attempts WHERE subscriber_id = 'test.hang.h'")" \
    "timed_out timed_out"
is "inside its lease" "$(sql "SELECT max(run_ms) < 3000 FROM outbox.attempts
    WHERE subscriber_id = 'test.hang.h'")" t
none_left() {
	! pgrep -f 'sleep 60[0-9]$' >/dev/null
}
wait_for 5 none_left && ok "no process of any handler is left" ||
    not_ok "no process of any handler is left" "$(pgrep -af 'sleep 60')"
no_zombie() {
	! ps -o stat= --ppid "$DAEMON" | grep -q Z
}
wait_for 5 no_zombie && ok "no zombie is left" || not_ok "no zombie is left"
for s in ok hang noise deaf grandchild; do
	ctl plugin deactivate "test.$s" >/dev/null
done

# ---- kill -9 with 50 in flight ----

make_many 50 "sleep 2.5"
wait_for 10 sql_is t "SELECT count(*) >= 50 FROM outbox.deliveries
    WHERE subscriber_id = 'test.puppet.h' AND status = 'claimed'" ||
    echo "# not all 50 were in flight at once"
killed=$(date +%s%3N)
stop_daemon KILL
start_daemon "$T/outboxd.yaml" || exit 1
wait_for 30 is_settled
is "kill -9 with 50 in flight loses none" "$(sql "SELECT count(*)
    FROM outbox.deliveries WHERE subscriber_id = 'test.puppet.h'
	AND status = 'delivered'")" 51
is "all within lease and a poll" "$(sql "SELECT
    extract(epoch FROM max(delivered_at)) * 1000 - $killed < 12000
    FROM outbox.deliveries")" t
is "none ran twice at the same moment" "$(grep -c overlap "$RECORD")" 0

# ---- graceful restarts count nothing ----

e=$(make_do "sleep 2.5")
i=0
while [ $i -lt 4 ]; do
	waits "$e" "status = 'claimed'" 5
	stop_daemon
	start_daemon "$T/outboxd.yaml" || exit 1
	i=$((i + 1))
done
becomes "stops in the middle of it count no attempt and no crash" "$e" \
    "status = 'delivered' AND attempt_count = 1 AND crash_count = 0" 15

# ---- the database goes away under load ----

make_many 100 "sleep 0.1"
: >"$T/daemon.log"
server_stop immediate
sleep 3
server_start
wait_for 30 is_settled && ok "work goes on after the database was away" ||
    not_ok "work goes on after the database was away" \
	"$(tail -n 5 "$T/daemon.log")"
is "nothing was lost" "$(sql "SELECT count(*) FROM outbox.deliveries
    WHERE subscriber_id = 'test.puppet.h' AND status = 'delivered'")" 152
said=$(logged 'level=(warn|error) event=(link|settle|claim)_')
if [ "$said" -lt 20 ]; then
	ok "it logged little about it"
else
	not_ok "it logged little about it" "$said lines" \
	    "$(grep -oE 'level=(warn|error) event=[a-z_]*' "$T/daemon.log" |
		sort | uniq -c)"
fi
is "none ran twice at the same moment" "$(grep -c overlap "$RECORD")" 0
stop_daemon
is "and it stops with 0" $? 0
