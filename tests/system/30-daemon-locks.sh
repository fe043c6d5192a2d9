#!/bin/sh
# Settles that must wait: finished work is neither lost nor run again.
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon locks
cat >>"$T/outboxd.yaml" <<'YAML'
dispatch: {lease: 40s, deadline: 30s, kill_grace: 500ms, settle_margin: 1s}
database: {statement_timeout: 20s, conninfo: CONNINFO}
YAML
conninfo=$(sed -n 's/^database: {conninfo: \(.*\)}/\1/p' "$T/outboxd.yaml")
sed -i "/^database: {conninfo/d; s,CONNINFO,$conninfo," "$T/outboxd.yaml"

handler work 'concurrency: 50' <<'SH'
exec 9>"$T/lock/$OUTBOX_EVENT_ID"
flock -n 9 || echo "$OUTBOX_EVENT_ID" >>"$T/run/overlap"
echo "$OUTBOX_EVENT_ID" >>"$T/run/began"
while [ ! -e "$T/go" ]; do sleep 0.05; done
echo "$OUTBOX_EVENT_ID" >>"$T/run/ended"
SH
start_daemon "$T/outboxd.yaml"
total=0
for table in claim receipt; do
	rm -f "$T/go"
	: >"$T/run/began" >"$T/run/ended"
	publish work 30 >/dev/null
	total=$((total + 30))
	wait_for $SLOW has_lines 30 "$T/run/began"
	mkfifo "$T/in"
	psql -XAtq <"$T/in" >"$T/locker" 2>&1 &
	exec 9>"$T/in"
	rm "$T/in"
	echo "BEGIN; LOCK TABLE outbox.$table IN ACCESS EXCLUSIVE MODE;
	    SELECT 'locked';" >&9
	wait_for $SLOW grep -q locked "$T/locker"
	: >"$T/go"
	wait_for $SLOW has_lines 30 "$T/run/ended"
	publish work 5 >/dev/null
	total=$((total + 5))
	sleep 3 # the lock is held for a time
	is "while $table is locked nothing is run again" \
	    "$(sort "$T/run/began" | uniq -d | wc -l)" 0
	is "and nothing is settled" \
	    "$(psql -XAtq -c "SET lock_timeout = '50ms'" -c "SELECT count(*)
	    FROM outbox.receipt" 2>/dev/null || true)" \
	    "$([ $table = receipt ] || echo $((total - 35)))"
	echo "COMMIT;" >&9
	exec 9>&-
	passes "then every ACK is recorded ($table)" delivered work $total
	is "and no attempt was lost ($table)" "$(sql "SELECT count(*) FROM
	    outbox.attempts WHERE outcome NOT IN ('not_started')") $(sql "SELECT
	    max(attempt_count) FROM outbox.deliveries")" "0 1"
	is "each ran once ($table)" \
	    "$(sort "$T/run/began" | uniq -c | awk '{print $1}' | sort -u)" 1
done
is "none ran twice at the same moment" "$(lines "$T/run/overlap")" 0

# ---- a partition comes between a settle and its receipt (all older ones go) ----
month=$(sql "SELECT 'outbox.receipt_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')")
rm -f "$T/go"
: >"$T/run/began"
e=$(publish work)
wait_for $SLOW has_lines 1 "$T/run/began"
sql "DROP TABLE $month" >/dev/null
mkfifo "$T/in"
psql -XAtq <"$T/in" >"$T/locker" 2>&1 &
exec 9>"$T/in"
rm "$T/in"
echo "BEGIN; SELECT 'locked' FROM outbox.fresh FOR UPDATE;" >&9
wait_for $SLOW grep -q locked "$T/locker"
: >"$T/go"
wait_for $SLOW sql_is t "SELECT EXISTS (SELECT FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query LIKE '%outbox.settle%')"
sql "SELECT outbox._duty_partitions()" >/dev/null
is "the partition is there" "$(sql "SELECT to_regclass('$month') IS NOT NULL")" t
echo "COMMIT;" >&9
exec 9>&-
passes "its ACK is recorded" delivered work 1
is "the settle that missed it was sent again as it was" \
    "$(logged 'event=settle_failed.*sqlstate=23514')$(sql "SELECT attempt_count FROM
    outbox.deliveries WHERE event_id = '$e'")" 11

# ---- pause races exit 0 ----
i=0
handler race 'concurrency: 20' <<'SH'
exit 0
SH
while [ $i -lt 40 ]; do
	i=$((i + 1))
	e=$(publish race)
	sql "SELECT '$e ' || outbox.pause('$e', 'test.race.run')" \
	    >>"$T/answers" 2>&1 || true
done
wait_for $SLOW sql_is 0 "SELECT count(*) FROM outbox.deliveries
    WHERE subscriber_id = 'test.race.run' AND status NOT IN ('delivered', 'paused')"
is "a pause that was answered is a pause, all others are delivered" "$(
	grep -c ' paused$' "$T/answers")" "$(count race paused)"
is "none is both" "$(sql "SELECT count(*) FROM outbox.deliveries
    WHERE subscriber_id = 'test.race.run'")" 40
is "a verdict that came too late is told once, as claim_lost" \
    "$(logged 'event=settled.*test.race.*answer=claim_lost')" \
    "$(grep 'event=settled.*test.race' "$T/daemon.log" | grep -vc answer=done)"
stop_daemon TERM
is "the daemon stops with 0" $? 0
