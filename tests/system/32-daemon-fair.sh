#!/bin/sh
# Who is served when there is more than can be done: slots, bytes, files.
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon fair
sed -i '/^plugins:/d' "$T/outboxd.yaml"
cat >>"$T/outboxd.yaml" <<YAML
plugins: {store: $STORE, max_processes: 4}
memory: {max_json_bytes: 16M}
dispatch: {unavailable_grace: 2s, kill_grace: 300ms, settle_margin: 1s}
YAML

handler flood 'concurrency: 4' </dev/null
handler one <<'SH'
date +%s%3N >"$T/run/one"
SH
handler hang 'concurrency: 4' 'deadline: 2s' 'retry: {base: 50ms, cap: 50ms}' <<'SH'
case $(cat) in
*good*) echo good >>"$T/run/order" ;;
*) echo "hang $OUTBOX_ATTEMPT" >>"$T/run/order"
	[ "$OUTBOX_ATTEMPT" -gt 1 ] || { trap '' TERM; sleep 1000; } ;;
esac
SH
handler big 'concurrency: 50' 'deadline: 20s' <<'SH'
[ "$(wc -c)" = "$OUTBOX_INPUT_BYTES" ]
SH
start_daemon "$T/outboxd.yaml"

# ---- one beside a flood ----
publish flood 5000 >/dev/null
wait_for $SLOW sql_is t "SELECT count(*) > 20 FROM outbox.receipt"
before=$(now_ms)
publish one >/dev/null
wait_for $SLOW test -s "$T/run/one"
took=$(($(cat "$T/run/one") - before))
is "one delivery beside five thousand of another waits for less than 2 s" \
    "$([ $took -lt ${FAIR_MS:-2000} ] && echo soon || echo "$took ms")" soon
is "which have not been delivered meanwhile" \
    "$(sql "SELECT count(*) > 1000 FROM outbox.fresh")" t
ctl plugin deactivate test.flood >/dev/null

# ---- four hanging first, a hundred good behind ----
publish hang 4 '"bad"' >/dev/null
publish hang 100 '"good"' >/dev/null
passes "four hanging ones and a hundred good ones are delivered" delivered hang 104
# of the last, three may still be on their way to write when it begins
first=$(sed -n '/hang 2/{=;q;}' "$T/run/order")
is "all hundred begin before any hanging one's second attempt" \
    "$([ "$first" -ge 102 ] && echo yes || echo "no, at $first")" yes

# ---- the budget of bytes ----
kill -USR2 $DAEMON
wait_for $SLOW grep -q level=debug "$T/daemon.log"
sql "SELECT outbox.publish_many('on.big', 'v1', array_fill(
    to_json(repeat('x', 5000000)), ARRAY[20]))" >/dev/null
most=0
watched() {
	kill -USR1 $DAEMON
	[ "$(count big delivered)" = 20 ]
}
passes "twenty bodies of 5 MB pass a budget of 16 MB" wait_for $SLOW watched
is "which is never exceeded" "$(sed -n \
    's/.*event=state_bus.*charged_bytes=\([0-9]*\).*/\1/p' "$T/daemon.log" |
    awk '$1 > 16 * 1024 * 1024' | wc -l)" 0
is "each at its first attempt" "$(attempts big)" ""

# ---- larger than the budget ----
e=$(sql "SELECT outbox.publish('on.big', 'v1', to_json(repeat('x', 17000000)))")
publish big 10 >/dev/null
passes "others pass a body that is larger than the budget" delivered big 30
passes "which after the grace is paused" wait_for $SLOW sql_is paused \
    "SELECT status FROM outbox.deliveries WHERE event_id = '$e'"
is "with its reason and no attempt" "$(sql "SELECT pause_reason, attempt_count
    FROM outbox.deliveries WHERE event_id = '$e'")" "exceeds_memory_budget|0"
stop_daemon TERM

# ---- few descriptors ----
sed -i '/^plugins:/d; /^memory:/d' "$T/outboxd.yaml"
cat >>"$T/outboxd.yaml" <<YAML
plugins: {store: $STORE, max_processes: 40}
YAML
handler files 'concurrency: 40' <<'SH'
sleep 0.1
SH
: >"$T/daemon.log"
(ulimit -n 40 && exec "$OUTBOXD" -c "$T/outboxd.yaml") >>"$T/daemon.log" 2>&1 &
DAEMON=$!
DAEMONS="$DAEMONS $DAEMON"
wait_for $SLOW grep -q event=ready "$T/daemon.log"
publish files 60 >/dev/null
passes "with 40 descriptors work goes on" delivered files 60
is "it lives" "$(kill -0 $DAEMON && echo lives)" lives
is "nothing is counted as a failure" "$(sql "SELECT max(attempt_count),
    max(crash_count) FROM outbox.deliveries WHERE subscriber_id = 'test.files.run'")|$(
	sql "SELECT count(*) FROM outbox.attempts
	WHERE subscriber_id = 'test.files.run' AND outcome <> 'not_started'")" "1|0|0"
is "that the limit is low was said at the start" "$(logged 'event=limit_low')" 1
stop_daemon TERM
is "the daemon stops with 0" $? 0
