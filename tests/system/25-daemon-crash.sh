#!/bin/sh
# The daemon dies: of kill -9 with work in flight, and of a handler that
# kills it each time.  Graceful stops are told from deaths.
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon crash
sed -i '/^plugins:/d' "$T/outboxd.yaml"
cat >>"$T/outboxd.yaml" <<YAML
dispatch: {kill_grace: 500ms, settle_margin: 1s, concurrency: 50}
plugins: {store: $STORE, max_processes: 64}
subscribers:
  test.slow.run: {lease: 20s, deadline: 15s}
  test.innocent.run: {lease: 6s, deadline: 3s}
stop: {timeout: 50ms}
YAML

# Each run takes a lock of its delivery and says when it met another one.
handler slow 'concurrency: 50' <<'SH'
exec 9>"$T/lock/$OUTBOX_EVENT_ID"
flock -n 9 || echo "$OUTBOX_EVENT_ID" >>"$T/run/overlap"
echo "$OUTBOX_EVENT_ID" >>"$T/run/began"
until [ -e "$T/go" ]; do sleep 0.1; done
SH
handler innocent 'concurrency: 50' <<'SH'
exec 9>"$T/lock/$OUTBOX_EVENT_ID"
flock -n 9 || echo "$OUTBOX_EVENT_ID" >>"$T/run/overlap"
echo "$OUTBOX_EVENT_ID" >>"$T/run/met"
case $(cat) in
*killer*)
	# the others shall be in the middle of it
	sleep 0.3
	kill -KILL $PPID
	while :; do :; done ;;
esac
[ -e "$T/mild" ] || sleep 1
SH

handler left 'deadline: 3s' <<'SH'
[ ! -e "$T/run/left" ] || exit 0
(setsid sh -c "echo \$\$ >'$T/run/left'; exec sleep 1000" &)
mkdir -p deep/er
sleep 1000
SH

# ---- kill -9 with 50 in flight ----
start_daemon "$T/outboxd.yaml"
publish left >/dev/null
wait_for $SLOW test -s "$T/run/left"
publish slow 50 >/dev/null
wait_for $SLOW has_lines 50 "$T/run/began"
is "fifty are in flight" "$(count slow claimed)" 50
stop_daemon KILL
killed=$(now_ms)
is "the daemon is killed" $? 0
: >"$T/go"
start_daemon "$T/outboxd.yaml"
passes "what fled from a handler of the dead daemon is killed by the next" \
    wait_for $SLOW ended "$(cat "$T/run/left")"
passes "and the dead one's private directories are removed" \
    wait_for $SLOW sh -c '[ "$(ls "$TMPDIR" | wc -l)" = 1 ]'
passes "after a restart all are delivered" delivered slow 50
is "no earlier than their leases end, for nobody knows better, and soon after" \
    "$(sql "SELECT min(delivered_at) >= min(r.claim_expires_at)
	AND extract(epoch FROM max(delivered_at)) * 1000 < $killed + 20000 + 10000
	FROM outbox.deliveries CROSS JOIN LATERAL (SELECT ended_at
	AS claim_expires_at FROM outbox.attempts LIMIT 1) r")" t
is "none twice at the same moment" "$(lines "$T/run/overlap")" 0
is "each once per daemon" \
    "$(sort "$T/run/began" | uniq -c | awk '{print $1}' | sort -u)" 2
is "the death is in the history of each" "$(sql "SELECT outcome, count(*)
    FROM outbox.attempts WHERE subscriber_id = 'test.slow.run'
    AND verdict IS NULL GROUP BY 1")" "crashed|50" # those that were released are no deaths
stop_daemon TERM

# ---- ten graceful restarts ----
rm "$T/go"
sql "TRUNCATE outbox.attempt"
publish slow 20 >/dev/null
before=$(lines "$T/run/began")
i=0
while [ $i -lt 10 ]; do
	i=$((i + 1))
	start_daemon "$T/outboxd.yaml" || break
	wait_for $SLOW has_lines $((before + 1)) "$T/run/began"
	stop_daemon TERM || echo "status $?" >>"$T/run/statuses"
	before=$(lines "$T/run/began")
done
is "each of ten graceful stops with work in flight ends with 0" \
    "$i $(lines "$T/run/statuses")" "10 0"
is "they count nothing" "$(sql "SELECT DISTINCT status, attempt_count,
    crash_count FROM outbox.deliveries WHERE status <> 'delivered'
    AND subscriber_id = 'test.slow.run'")" \
    "pending|0|0"
is "and are recorded as interruptions, released" "$(sql "SELECT DISTINCT
    verdict FROM outbox.attempts
    WHERE outcome IN ('interrupted', 'not_started') OR verdict <> 'release'")" \
    release
: >"$T/go"
start_daemon "$T/outboxd.yaml"
passes "then all are delivered" delivered slow 70
is "in their first attempt" "$(sql "SELECT count(*) FROM outbox.deliveries
    WHERE attempt_count = 1 AND subscriber_id = 'test.slow.run'")" 20

# ---- a handler that kills its daemon, beside fifty good ones ----
: >"$T/run/met"
publish innocent 25 >/dev/null
killer=$(publish innocent 1 '"killer"')
publish innocent 25 >/dev/null
deaths=0
settled() {
	ended $DAEMON || sql_is 0 "SELECT count(*) FROM outbox.deliveries
	    WHERE subscriber_id = 'test.innocent.run'
	    AND status NOT IN ('delivered', 'paused')"
}
while wait_for $SLOW settled && ended $DAEMON && [ $deaths -lt 10 ]; do
	deaths=$((deaths + 1))
	stop_daemon KILL
	[ $deaths -lt 2 ] || : >"$T/mild" # for the sake of time
	start_daemon "$T/outboxd.yaml"
done
is "the killer is alone and paused as a crash loop" "$(sql "SELECT event_id =
    '$killer', pause_reason FROM outbox.deliveries WHERE status = 'paused'")" \
    "t|crash_loop"
is "all fifty others are delivered" "$(count innocent delivered)" 50
is "it took max_crashes deaths, and perhaps one to tell it from the others" \
    "$([ $deaths -ge 3 ] && [ $deaths -le 4 ] && echo few || echo $deaths)" few
is "none ran twice at the same moment" "$(lines "$T/run/overlap")" 0
is "the killer itself ran that often" "$(grep -c "$killer" "$T/run/met")" $deaths
stop_daemon TERM
is "the daemon stops with 0" $? 0
