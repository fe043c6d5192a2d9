#!/bin/sh
# Each ending of a handler has the outcome, verdict and reason of the table.
. "$(dirname "$0")/lib.sh"
begin daemon-outcomes
. "$ROOT/tests/system/daemon.sh"

setup "subscribers: {test.puppet.h: {environment: {RECORD: $T/record}}}"
install puppet
start_daemon "$T/outboxd.yaml" || exit 1

e=$(make_do "exit 0")
becomes "exit 0 is delivered" "$e" "status = 'delivered' AND attempt_count = 1"

e=$(make_do "exit 75")
f=$(make_do "exit 1")
g=$(make_do "exit 255")
for i in "$e" "$f" "$g"; do
	becomes "a failure is tried max_attempts times, then paused" "$i" \
	    "status = 'paused' AND pause_reason = 'retry_budget_exhausted'
	     AND attempt_count = 3"
done
is "each attempt is on record" "$(outcomes "$e")" "failed failed failed"
like "the last error is kept" "$(field "$e" last_error)" "exit status 75*"
is "the exit status is on record" \
    "$(sql "SELECT DISTINCT exit_code FROM outbox.attempts
	WHERE event_id = '$g'")" 255

for code in 65 77; do
	e=$(make_do "echo no such model >&2; exit $code")
	becomes "exit $code pauses at once" "$e" "status = 'paused'
	    AND pause_reason = 'handler_rejected' AND attempt_count = 1"
	like "and says why" "$(field "$e" last_error)" "*no such model*"
done

e=$(make_do "kill -SEGV \$\$")
becomes "a signal of its own, max_crashes times, is a crash loop" "$e" \
    "status = 'paused' AND pause_reason = 'crash_loop' AND crash_count = 3"
is "and each is on record as crashed" "$(outcomes "$e")" \
    "crashed crashed crashed"

e=$(make_say '{"outcome":')
waits "$e" "attempt_count >= 1 AND status <> 'claimed'"
is "a malformed result is never an ack" \
    "$(sql "SELECT DISTINCT outcome FROM outbox.attempts
	WHERE event_id = '$e'")" bad_result
e=$(make_say '{"outcome":"ack"}')
becomes "a result may say ack" "$e" "status = 'delivered'"
e=$(make_say '{"outcome":"pause","reason":"no such account","code":"E7"}')
becomes "a result may say pause" "$e" "pause_reason = 'handler_rejected'
    AND last_error LIKE '%code=E7 reason=no such account%'"
e=$(make_say '{"outcome":"retry","retry_after_ms":3600000}')
becomes "a result may say retry, and when" "$e" "status = 'pending'
    AND attempt_count = 1 AND available_at > now() + interval '59 min'"
e=$(make_say '{"retry_after_ms":7200000,"code":"BUSY"}' 75)
becomes "a failure may say when, too" "$e" "status = 'pending'
    AND available_at > now() + interval '119 min'
    AND last_error LIKE '%BUSY%'"
e=$(make_say '{"outcome":"ack"}' 1)
becomes "but a failure is no ack whatever it says" "$e" \
    "status <> 'delivered' AND last_error LIKE 'exit status 1%'"
e=$(make_say '{"effects":[{"collection":"documents"}]}')
becomes "effects are not in this version: result_rejected" "$e" \
    "pause_reason = 'result_rejected'"

# ---- what it is given ----

e=$(make_do "env | sort >$T/env; cat >/dev/null; ls -A >$T/ls; exit 0")
becomes "the environment was looked at" "$e" "status = 'delivered'"
is "it has the names of the protocol, what config lists, and no other" \
    "$(sed 's/=.*//' "$T/env" | grep -vE '^(_|OLDPWD|SHLVL)$' | tr '\n' ' ')" \
    "HOME LANG OUTBOX_ATTEMPT OUTBOX_CONTRACT OUTBOX_EVENT_ID\
 OUTBOX_HANDLER OUTBOX_HANDLER_VERSION OUTBOX_IDEMPOTENCY_KEY\
 OUTBOX_INPUT_BYTES OUTBOX_MAX_ATTEMPTS OUTBOX_PROTOCOL OUTBOX_RESULT_FD\
 OUTBOX_SUBSCRIBER OUTBOX_TIMEOUT_MS OUTBOX_WORKSPACE PATH PWD RECORD TMPDIR\
 TZ "
like "the idempotency key names event, subscriber and generation" \
    "$(grep IDEMP "$T/env")" "*=$e:test.puppet.h:1"
is "its directory is empty" "$(cat "$T/ls")" ""

body='{"do": "exit 0", "n": 123456789012345678901234567890, "n": 1,
 "s": "\\u0000 x"}'
e=$(sql "SELECT outbox.publish('fact.made', 'v1', \$b\$$body\$b\$,
    subject => 'm \"1\"', headers => '{\"traceparent\": \"00-ab-cd-01\"}')")
becomes "line feeds, duplicate keys and 30 digits pass" "$e" \
    "status = 'delivered'"

# ---- the subscriber as a whole ----

e=$(make_do "exit 78")
becomes "exit 78 is released, uncounted" "$e" \
    "status = 'pending' AND attempt_count = 0"
wait_for 5 sql_is t "SELECT paused FROM outbox.subscribers
    WHERE subscriber_id = 'test.puppet.h'"
is "and pauses the subscriber" "$(sql "SELECT pause_reason
    FROM outbox.subscribers WHERE subscriber_id = 'test.puppet.h'")" \
    handler_config
f=$(make_do "exit 0")
sleep 1.5
is "nothing of it runs meanwhile" "$(field "$f" status)" pending
ctl delivery discard "$e" test.puppet.h --reason test >/dev/null
ctl subscriber resume test.puppet.h >/dev/null
becomes "until it is resumed" "$f" "status = 'delivered'"

e=$(make_do "exit 69")
becomes "exit 69 is tried again" "$e" \
    "attempt_count >= 1 AND status = 'pending' OR status = 'paused'"
is "and is on record as unavailable" \
    "$(outcomes "$e" | cut -d' ' -f1)" unavailable

# ---- the log ----

wait_for 10 sql_is 0 "SELECT count(*) FROM outbox.deliveries
    WHERE status IN ('pending', 'claimed') AND available_at < now() + '1 min'"
is "each finished attempt has exactly one line" \
    "$(logged 'event=settled .*outcome=(ok|failed|crashed|rejected|bad_result|unavailable)')" \
    "$(sql "SELECT count(*) FILTER (WHERE a.verdict IS DISTINCT FROM NULL)
	+ (SELECT count(*) FROM outbox.deliveries WHERE status = 'delivered')
	FROM outbox.attempts a")"
stop_daemon
is "a stop is exit 0" $? 0
