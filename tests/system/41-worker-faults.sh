#!/bin/sh
# Workers that die, break the protocol or do not answer: who pays for it.
. "$(dirname "$0")/lib.sh"
begin worker-faults
. "$ROOT/tests/system/daemon.sh"
. "$ROOT/tests/system/worker-lib.sh"
setup "dispatch: {lease: 20s, kill_grace: 500ms, settle_margin: 1s, breaker: {failures: 1000, open: 500ms}}" \
    "subscribers: {test.a.h: {environment: {RECORD: $T/record}}, test.b.h: {environment: {RECORD: $T/b}}, test.slow.h: {environment: {RECORD: $T/slow}}, test.late.h: {environment: {RECORD: $T/late}}}"
worker a
worker b
HANDLER='deadline: 1s
    concurrency: 8
    retry: {base: 100ms, cap: 300ms, max_attempts: 2, max_crashes: 3}' worker slow
worker late 'startup_timeout: 500ms'
: >"$T/late.start"
echo never >"$T/late.start"
start_daemon "$T/outboxd.yaml" || exit 1
wait_for 20 says 1 ^hello

# raw TEXT: a command that sends it as it is, and a line feed.
raw() {
	printf 'raw %s' "$(printf "$1\\n" | base64 -w 0)"
}

# ---- every breach of the protocol ----
breach() { # SENTENCE COMMANDS ERROR
	local e innocent
	rm -f "$T/go" "$T/once"
	: >"$T/daemon.log"
	innocent=$(tell a "until $T/go; ack")
	wait_for 20 says 1 "^start .*$innocent"
	e=$(tell a "once $T/once; $2")
	if ! wait_for 20 logs 1 "event=worker_ended.*$3"; then
		not_ok "$1 kills the process" "$(tail -n 3 "$T/daemon.log")"
		return
	fi
	: >"$T/go"
	becomes "$1: its innocent neighbour is delivered, no attempt lost" \
	    "$innocent" "status = 'delivered' AND attempt_count = 1" 30
	waits "$e" "status = 'delivered'"
	is "$1: the neighbour's history tells" \
	    "$(outcomes "$innocent" | sed 's/ *not_started//g')" \
	    protocol_error
}
breach "a second result" "twice" "which is not open"
breach "a result for an unknown call" \
    "$(raw '{"type":"result","call":"99999","outcome":"ack"}')" "which is not open"
breach "a line that is no JSON" "$(raw 'hello')" "a frame that is none"
breach "an unknown frame" "$(raw '{"type":"bye"}')" 'is unknown'
breach "an unknown key" "$(raw '{"type":"pong","id":"1","x":1}')" "unknown key"
breach "a duplicate key" "$(raw '{"type":"pong","id":"1","id":"1"}')" "duplicate key"
breach "a NUL" "$(raw '{"type":"pong","id":"\000"}')" "a frame that is none"
breach "broken UTF-8" "$(raw '{"type":"pong","id":"\377"}')" "not UTF-8"
breach "hello again" "$(raw '{"type":"hello","protocol":"worker/1"}')" "a second time"
breach "a pong to no ping" "$(raw '{"type":"pong","id":"5"}')" "to no ping"
breach "a line longer than max_frame" "flood 17000000" "a line of more than"
breach "closing descriptor 3" "close 3" "closed by the plugin"
is "all of that was kept from the other worker" "$(grep -c ^hello "$T/b")" 1

# ---- the guilty one alone ends as crash_loop ----
crash() { # SENTENCE COMMANDS OUTCOME
	local guilty innocents
	rm -f "$T/go"
	guilty=$(tell a "$2")
	echo "$guilty" >>"$T/guilty"
	tell_many 5 a "sleep 0.3; ack"
	becomes "$1: the guilty one is paused" "$guilty" \
	    "pause_reason = 'crash_loop' AND crash_count = 3" 60
	passes "$1: the innocent are all delivered" wait_for 60 sql_is 0 \
	    "SELECT count(*) FROM outbox.deliveries
	    WHERE subscriber_id = 'test.a.h' AND status IN ('pending', 'claimed')"
	is "$1: none of them is paused" "$(sql "SELECT count(*)
	    FROM outbox.deliveries WHERE pause_reason = 'crash_loop'
		AND event_id <> '$guilty'")" 0
	is "$1: nor has lost an attempt" "$(sql "SELECT max(attempt_count)
	    FROM outbox.deliveries WHERE subscriber_id = 'test.a.h'
		AND status = 'delivered'")" 1
	is "$1: recorded as $3, thrice" "$(outcomes "$guilty")" "$3 $3 $3"
	sql "SELECT outbox.discard('$guilty', 'test.a.h', 1, 'done')" >/dev/null
}
crash "exit 1" "exit 1" crashed
crash "a signal" "signal 11" crashed
crash "a broken frame" "$(raw 'x')" protocol_error
is "a suspect had nothing beside it" "$(awk '
	FILENAME ~ /guilty/ { guilty[$1] = 1; next }
	$1 == "end" { open[$2]-- }
	$1 == "start" {
		if (guilty[$5] && ++n[$5] == 3)
			print open[$2] + 0
		open[$2]++
	}' "$T/guilty" "$RECORD" | paste -sd' ')" "0 0 0"

# ---- deadline: cancel, a grace, the process ----
e=$(tell slow "cancel; ack")
becomes "an ack soon after the cancel is one" "$e" "status = 'delivered'"
is "it was told why" "$(grep -c 'cancel .*deadline' "$T/slow")" 1
e=$(tell slow "cancel; retry")
becomes "another answer after it is a timeout" "$e" \
    "pause_reason = 'retry_budget_exhausted'"
is "at each attempt" "$(outcomes "$e")" "timed_out timed_out"
is "and the process lives" "$(grep -c ^hello "$T/slow")" 1
innocent=$(tell slow "sleep 0.1; ack")
e=$(tell slow deaf)
sleep 1.2
beside=$(tell slow "sleep 0.9; ack")
wait_for 20 grep -q "start .*$beside" "$T/slow"
becomes "who answers not at all takes the process along, twice" "$e" \
    "pause_reason = 'retry_budget_exhausted' AND crash_count = 2" 30
becomes "who was beside it is run again, uncounted" "$beside" \
    "status = 'delivered' AND attempt_count = 1" 30

# ---- start: never ready, with backoff ----
n=$(grep -c ^hello "$T/late")
[ "$n" -ge 2 ] && ok "a worker that is never ready is started again" ||
    not_ok "a worker that is never ready is started again" "$n"
[ "$n" -le 30 ] && ok "but less and less often" ||
    not_ok "but less and less often" "$n starts"
log_is "it was killed for that" "event=worker_ended.*not ready within 500 ms"
e=$(tell late ack)
sleep 1
is "nothing was claimed for it meanwhile" "$(field "$e" "status, attempt_count")" "pending|0"
echo >"$T/late.start"
becomes "once it is ready, it is delivered" "$e" "status = 'delivered'" 30
echo exit 1 >"$T/late.start"

# ---- kill -9 of the daemon ----
e=$(tell a "sleep 600; ack")
wait_for 20 says 1 "^start .*$e"
pid=$(grep "^start .*$e" "$RECORD" | tail -n 1 | cut -d' ' -f2)
stop_daemon KILL
passes "a worker does not outlive a daemon that was killed" wait_for 10 \
    sh -c "! kill -0 $pid"
