#!/bin/sh
# Every way a handler can end, and what the database says afterwards.
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon exits

# A delivery does what its body says, once; a second attempt is fine.
handler do 'retry: {base: 50ms, cap: 50ms, max_attempts: 5, max_crashes: 3}' \
    'concurrency: 4' 'deadline: 20s' <<'SH'
[ "$OUTBOX_ATTEMPT" = 1 ] || exit 0
eval "$(sed 's/.*"data":"\(.*\)"}$/\1/; s/\\"/"/g; s/\\\\/\\/g')"
SH
handler never 'retry: {base: 20ms, cap: 50ms, max_attempts: 3}' <<'SH'
echo "this is attempt $OUTBOX_ATTEMPT" >&2
exit 1
SH
handler killed 'retry: {base: 20ms, cap: 50ms, max_attempts: 50, max_crashes: 3}' <<'SH'
kill -SEGV $$
SH
handler down 'retry: {base: 3s, cap: 3s}' 'concurrency: 1' <<'SH'
date +%s%3N >>"$T/run/down"
[ "$OUTBOX_ATTEMPT" -gt 1 ] || [ -e "$T/up" ] || { : >"$T/up"; exit 69; }
SH
handler config 'concurrency: 1' <<'SH'
[ -e "$T/configured" ] || { echo "KEY is not set" >&2; exit 78; }
SH

# expect SENTENCE BODY: publishes, and says what is wanted of the delivery.
N=0
expect() { # SENTENCE WHAT-IT-DOES STATUS PAUSE_REASON OUTCOME VERDICT
	N=$((N + 1))
	id=$(psql -XAtq -v ON_ERROR_STOP=1 -v what="$2" <<-'SQL'
		SELECT outbox.publish('on.do', 'v1', to_json(:'what'::text));
	SQL
	)
	printf '%s|%s|%s\n' "$id" "$3 $4 $5 $6" "$1" >>"$T/wanted"
}

expect "exit 0 is an ACK" "exit 0" delivered - - -
expect "so it is with output that looks like a result" \
    "echo '{\"outcome\": \"retry\"}'" delivered - - -
expect "an empty object on 3 changes nothing" "echo '{}' >&3" delivered - - -
expect "exit 0 and outcome ack is an ACK" \
    "echo '{\"type\": \"result\", \"outcome\": \"ack\"}' >&3" delivered - - -
expect "exit 0 and outcome retry is a retry" \
    "echo '{\"outcome\": \"retry\", \"retry_after_ms\": 60}' >&3" \
    delivered - failed retry
expect "exit 0 and outcome pause pauses" \
    "echo '{\"outcome\": \"pause\", \"reason\": \"not mine\"}' >&3" \
    paused handler_rejected rejected pause
expect "a malformed result is never an ACK" "echo '{\"outcome\": ' >&3" \
    delivered - bad_result retry
expect "nor is an unknown outcome" "echo '{\"outcome\": \"done\"}' >&3" \
    delivered - bad_result retry
expect "nor an unknown key" "echo '{\"ack\": true}' >&3" \
    delivered - bad_result retry
expect "nor a key twice" "echo '{\"code\": \"a\", \"code\": \"b\"}' >&3" \
    delivered - bad_result retry
expect "nor two objects" "echo '{} {}' >&3" delivered - bad_result retry
expect "nor broken UTF-8" "printf '{\"reason\": \"\\377\"}' >&3" \
    delivered - bad_result retry
expect "nor a NUL" "printf '{}\\0' >&3" delivered - bad_result retry
expect "nor more than may be kept" \
    "head -c 3000000 /dev/zero | tr '\\0' ' ' >&3; echo '{}' >&3" \
    delivered - bad_result retry
expect "effects, which are not built, are refused and not ignored" \
    "echo '{\"outcome\": \"ack\", \"effects\": [{}]}' >&3" \
    paused result_rejected rejected pause
expect "exit 75 is a retry" "exit 75" delivered - failed retry
expect "with retry_after_ms" "echo '{\"retry_after_ms\": 900000}' >&3; exit 75" \
    pending - failed retry
expect "exit 65 pauses" "exit 65" paused handler_rejected rejected pause
expect "exit 77 pauses" "exit 77" paused handler_rejected rejected pause
expect "exit 65 and a result that says ack pauses" \
    "echo '{\"outcome\": \"ack\"}' >&3; exit 65" \
    paused handler_rejected rejected pause
expect "exit 1 is a retry" "exit 1" delivered - failed retry
expect "exit 127 is a retry" "exit 127" delivered - failed retry
expect "exit 255 is a retry" "exit 255" delivered - failed retry
expect "a signal is a crash" 'kill -SEGV $$' delivered - crashed retry
expect "TERM from somebody else is one, too" 'kill -TERM $$' \
    delivered - crashed retry
expect "KILL from somebody else, too" 'kill -KILL $$' delivered - crashed retry
expect "a shell that reports a child's signal has failed" \
    "sh -c 'kill -9 \$\$'; exit \$?" delivered - failed retry
publish never >/dev/null
publish killed >/dev/null
publish down 3 >/dev/null
publish config 3 >/dev/null

start_daemon "$T/outboxd.yaml"

# ---- the table ----
wait_for $SLOW sql_is 0 "SELECT count(*) FROM outbox.deliveries
    WHERE subscriber_id = 'test.do.run' AND (status = 'claimed'
	OR status = 'pending' AND available_at < now() + interval '60 s')"
while IFS='|' read -r id wanted sentence; do
	is "$sentence" "$(sql "SELECT d.status, coalesce(d.pause_reason, '-'),
	    coalesce(a.outcome, '-'), coalesce(a.verdict, '-')
	    FROM outbox.deliveries d LEFT JOIN outbox.attempts a
	    ON a.event_id = d.event_id AND a.attempt = 1
	    WHERE d.event_id = '$id'" | tr '|' ' ')" "$wanted"
done <"$T/wanted"
is "retry_after_ms moves the next attempt" "$(sql "SELECT count(*)
    FROM outbox.deliveries WHERE subscriber_id = 'test.do.run'
    AND available_at > now() + interval '14 min'")" 1
is "the reason a handler gives is kept" "$(sql "SELECT count(*)
    FROM outbox.deliveries WHERE last_error LIKE '%not mine%'")" 1
is "a signal is told from an exit" "$(sql "SELECT string_agg(DISTINCT
    signal::text, ' ' ORDER BY signal::text) FROM outbox.attempts
    WHERE outcome = 'crashed'
    AND subscriber_id = 'test.do.run' AND exit_code IS NULL")" "11 15 9"
is "each attempt is one line of the log" \
    "$(logged 'event=settled.*test.do.run')" \
    "$(sql "SELECT sum(attempt_count) FROM outbox.deliveries
	WHERE subscriber_id = 'test.do.run'")"

# ---- budgets ----
wait_status never paused
is "after max_attempts it is paused, with its reason" \
    "$(delivery never "pause_reason, attempt_count")" "retry_budget_exhausted|3"
is "each attempt is in the history" "$(attempts never)" "failed failed failed"
like "with the last that it printed" "$(delivery never last_error)" \
    "exit status 1: *this is attempt 3*"
wait_status killed paused
is "a handler that dies by a signal each time is crash_loop" \
    "$(delivery killed "pause_reason, crash_count")" "crash_loop|3"

# ---- 69: the target is down ----
delivered down 3
is "after 69 all three are delivered" $? 0
is "69 is recorded as unavailable" "$(attempts down)" unavailable
is "and held the whole lane back for about the retry delay" "$(
	set -- $(cat "$T/run/down")
	[ $# = 4 ] && [ $(($2 - $1)) -ge 1500 ] && echo held || echo "$@")" held

# ---- 78: it would fail for every event ----
wait_for $SLOW sql_is t "SELECT paused FROM outbox.subscribers
    WHERE subscriber_id = 'test.config.run'"
is "78 pauses the subscriber" "$(sql "SELECT pause_reason FROM outbox.subscribers
    WHERE subscriber_id = 'test.config.run'")" handler_config
wait_for $SLOW sql_is 3 "SELECT count(*) FROM outbox.deliveries WHERE
    subscriber_id = 'test.config.run' AND status = 'pending'"
is "and releases the delivery, which counts nothing" \
    "$(delivery config "status, attempt_count" | sort -u)" "pending|0"
is "it ran once only, not for every event" \
    "$(logged 'event=settled.*test.config.run')" 1
: >"$T/configured"
ctl subscriber resume test.config.run >/dev/null
passes "resumed, all are delivered" delivered config 3

stop_daemon TERM
is "the daemon stops with 0" $? 0
