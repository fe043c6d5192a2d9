#!/bin/sh
# A worker plugin: what it is told, what it says, and what the database says.
. "$(dirname "$0")/lib.sh"
begin worker-basics
. "$ROOT/tests/system/daemon.sh"
. "$ROOT/tests/system/worker-lib.sh"
setup "dispatch: {lease: 20s, kill_grace: 500ms, settle_margin: 1s, breaker: {failures: 1000, open: 500ms}}" \
    "subscribers: {test.a.h: {environment: {RECORD: $T/record}}, test.two.x: {environment: {RECORD: $T/two}}, test.many.h: {environment: {RECORD: $T/many}}}"
worker a
HANDLERS='  x:
    version: "1"
    subscribes: [{contract: on.two@v1}]
    concurrency: 3
  y:
    version: "7"
    subscribes: [{contract: on.two@v1}]
    concurrency: 5' worker two
worker many 'instances: 3'
start_daemon "$T/outboxd.yaml" || exit 1

# ---- outcomes ----
e=$(tell a ack)
becomes "an ack is delivered" "$e" "status = 'delivered' AND attempt_count = 1"
is "hello says plugin, version, calls and handlers" \
    "$(grep ^hello "$RECORD" | cut -d' ' -f3-)" "test.a 1 8 1"
e=$(tell a retry)
becomes "a retry is retried until the budget ends" "$e" \
    "status = 'paused' AND pause_reason = 'retry_budget_exhausted' AND attempt_count = 3"
like "with what the handler said" "$(field "$e" last_error)" "*as told*"
e=$(tell a "later 60000")
becomes "retry_after_ms is kept to" "$e" \
    "status = 'pending' AND attempt_count = 1 AND available_at > now() + interval '50 s'"
e=$(tell a pause)
becomes "a pause is paused" "$e" "pause_reason = 'handler_rejected'"
e=$(tell a effects)
becomes "effects are refused, nothing is acknowledged" "$e" \
    "pause_reason = 'result_rejected'"
e=$(tell a oddly)
becomes "an outcome that is none is a retry" "$e" "attempt_count >= 1"
is "recorded as a bad result" "$(outcomes "$e" | cut -d' ' -f1)" bad_result
is "and the process lives on" "$(logged "event=worker_ended")" 0

# ---- many at once, in any order ----
slow=$(tell a "until $T/go; ack")
wait_for 10 says 1 "^start .*$slow"
tell_many 30 a ack
passes "results come out of order" wait_for 20 sql_is 30 "SELECT count(*)
    FROM outbox.deliveries WHERE contract_id = 'on.a' AND status = 'delivered'
	AND published_at > (SELECT published_at FROM outbox.facts WHERE event_id = '$slow')"
is "while the first one still runs" "$(field "$slow" status)" claimed
: >"$T/go"
becomes "and it is delivered too" "$slow" "status = 'delivered'"
is "all in one process" "$(grep ^start "$RECORD" | cut -d' ' -f2 | sort -u | wc -l)" 1

# ---- what a handler prints and logs ----
e=$(tell a "print hello there; log; ack")
becomes "printing is no result" "$e" "status = 'delivered'"
log_is "a line printed is logged" 'event=handler_output.*line="hello there"'
log_is "a log frame is logged, escaped, with its fields" \
    'event=handler_log .*event_id='"$e"'.*severity=warn message="a\\nb=c" fields='

# ---- bodies ----
body='{"z" : 123456789012345678901234567890,	"a":1.50, "do": "echo; ack",
 "s": "\\n\\u000a é"}'
e=$(printf '%s' "$body" | sed 's/\\\\/\\/g' | sed 's/,$/,\r/' |
    ctl publish on.a@v1 --body -)
becomes "a body with LF, CRLF and tabs is delivered" "$e" "status = 'delivered'"
is "it arrives whole, line ends as blanks" \
    "$(grep -ao '"data":.*' "$RECORD.body")" \
    "\"data\":$(printf '%s' "$body" | sed 's/\\\\/\\/g' | sed 's/,$/, /' | tr '\n' ' ')}}"
sql "SELECT outbox.publish('on.a', 'v1', ('{\"do\": \"ack\", \"x\": \"' ||
    repeat('y', 16000000) || '\"}')::json)" >"$T/e"
becomes "an event of nearly 16 MiB is delivered" "$(cat "$T/e")" \
    "status = 'delivered'" 30
sql "SELECT outbox.publish('on.a', 'v1', ('{\"do\": \"ack\", \"x\": \"' ||
    repeat('y', 17000000) || '\"}')::json)" >"$T/e"
becomes "one that fits no frame is paused, and none is started" "$(cat "$T/e")" \
    "pause_reason = 'exceeds_memory_budget'" 30

# ---- several handlers, several processes ----
e=$(tell two ack)
becomes "two handlers of one process both get the event" "$e" \
    "status = 'delivered'"
is "in one process" "$(grep -h ^start "$T/two" | cut -d' ' -f2 | sort -u | wc -l)" 1
is "each by its name" "$(grep -h ^start "$T/two" | cut -d' ' -f4 | sort | paste -sd' ')" "x y"
is "which takes the calls of both" "$(grep ^hello "$T/two" | cut -d' ' -f5-)" "8 2"
wait_for 20 sh -c "[ \$(grep -c ^hello '$T/many') -eq 3 ]"
tell_many 24 many "sleep 0.3; ack"
passes "three instances deliver" wait_for 20 sql_is 24 "SELECT count(*)
    FROM outbox.deliveries WHERE contract_id = 'on.many' AND status = 'delivered'"
is "each of them some" "$(grep ^start "$T/many" | cut -d' ' -f2 | sort -u | wc -l)" 3

# ---- the end ----
run=$(tell a "sleep 1; ack")
wait_for 10 says 1 "^start .*$run"
stop_daemon
is "a stop ends with 0" $? 0
is "what ran was finished and recorded" "$(field "$run" status)" delivered
is "each worker was told to drain, and ended by itself" \
    "$(said ^drain) $(said ^eof) $(grep -c 'event=worker_ended.*level=warn' "$T/daemon.log")" "1 1 0"
