#!/bin/sh
# Stopping with work in flight: nothing is a failure, nothing takes too long.
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon stop
echo 'dispatch: {kill_grace: 1s, settle_margin: 2s}' >>"$T/outboxd.yaml"
cp "$T/outboxd.yaml" "$T/base.yaml"

handler many 'concurrency: 30' 'deadline: 30s' <<'SH'
exec 9>"$T/lock/$OUTBOX_EVENT_ID"
flock -n 9 || echo overlap >>"$T/run/overlap"
echo "$OUTBOX_EVENT_ID" >>"$T/run/many"
until [ -e "$T/go" ]; do sleep 0.1; done
echo "$OUTBOX_EVENT_ID" >>"$T/run/done"
SH
# Ends 1 s after the stop has begun; never, though it hears TERM; never at all.
handler short 'deadline: 60s' <<'SH'
echo short >>"$T/run/three"
until [ -e "$T/stopping" ]; do sleep 0.1; done
sleep 1
SH
handler long 'deadline: 60s' <<'SH'
echo long >>"$T/run/three"
[ -e "$T/second" ] || exec sleep 1000
SH
handler ever 'deadline: 60s' <<'SH'
echo ever >>"$T/run/three"
[ ! -e "$T/second" ] || exit 0
trap '' TERM
while :; do sleep 1; done
SH

# ---- a stop while thirty run ----
echo 'stop: {timeout: 300ms}' >>"$T/outboxd.yaml"
start_daemon "$T/outboxd.yaml"
publish many 60 >/dev/null
wait_for $SLOW has_lines 30 "$T/run/many"
stop_daemon TERM
is "TERM with thirty running ends with 0" $? 0
is "no failure, no crash and no attempt is counted" "$(sql "SELECT DISTINCT
    status, attempt_count, crash_count, last_error IS NULL
    FROM outbox.deliveries WHERE subscriber_id = 'test.many.run'")" \
    "pending|0|0|t"
is "the history calls it an interruption" "$(sql "SELECT DISTINCT outcome,
    verdict FROM outbox.attempts WHERE outcome <> 'not_started'")" \
    "interrupted|release"
is "they are due at once" "$(sql "SELECT count(*) FROM outbox.deliveries
    WHERE available_at <= now()")" 60
is "no process of theirs is left" "$(pgrep -f "$STORE/.*/bin/handle" | wc -l)" 0
is "nor any private directory" "$(ls "$TMPDIR" | wc -l)" 0
: >"$T/go"
start_daemon "$T/outboxd.yaml"
passes "after a restart all run" delivered many 60
is "to their end once" "$(sort "$T/run/done" | uniq -c |
    awk '{print $1}' | sort -u) $(lines "$T/run/done")" "1 60"
is "and never twice at the same moment" "$(lines "$T/run/overlap")" 0
stop_daemon TERM

# ---- handlers of 1 s, of 1000 s, and of ever ----
cp "$T/base.yaml" "$T/outboxd.yaml"
echo 'stop: {timeout: 5s}' >>"$T/outboxd.yaml"
: >"$T/run/three"
start_daemon "$T/outboxd.yaml"
for name in short long ever; do
	publish $name >/dev/null
done
wait_for $SLOW has_lines 3 "$T/run/three"
before=$(now_ms)
: >"$T/stopping"
stop_daemon TERM
is "with handlers that do not end the daemon ends with 0" $? 0
took=$(($(now_ms) - before))
is "what ends within stop.timeout is delivered" "$(count short delivered)" 1
is "what does not is released, uncounted, and due" "$(sql "SELECT DISTINCT
    status, attempt_count, crash_count, available_at <= now()
    FROM outbox.deliveries WHERE subscriber_id IN ('test.long.run', 'test.ever.run')")" \
    "pending|0|0|t"
is "the stop took stop.timeout and kill_grace at most" \
    "$([ $took -ge 5000 ] && [ $took -lt 11000 ] && echo in time || echo $took ms)" \
    "in time"

# ---- the second signal ----
: >"$T/run/three"
echo 'stop: {timeout: 1h}' >"$T/more"
sed -i /^stop/d "$T/outboxd.yaml"
cat "$T/more" >>"$T/outboxd.yaml"
start_daemon "$T/outboxd.yaml"
wait_for $SLOW has_lines 2 "$T/run/three"
kill -TERM $DAEMON
wait_for $SLOW grep -q 'event=stopping.*timeout_ms=3600000' "$T/daemon.log"
publish short >/dev/null
before=$(now_ms)
stop_daemon TERM
is "a second signal ends it with 0" $? 0
took=$(($(now_ms) - before))
is "at once, though a handler ignores TERM" \
    "$([ $took -lt 5000 ] && echo at once || echo $took ms)" "at once"
is "what ran is released, uncounted" "$(sql "SELECT DISTINCT status,
    attempt_count, crash_count FROM outbox.deliveries
    WHERE subscriber_id IN ('test.long.run', 'test.ever.run')")" "pending|0|0"
is "nothing more was claimed" "$(delivery short status | paste -sd' ')" \
    "delivered pending"
: >"$T/second"
start_daemon "$T/outboxd.yaml"
for name in long ever; do
	passes "after a restart it is delivered: $name" delivered $name 1
done
stop_daemon TERM
is "an idle daemon stops with 0" $? 0
