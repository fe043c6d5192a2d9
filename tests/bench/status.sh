#!/bin/sh
# status.sh - how long "outboxctl status" takes on large tables.
#
#	status.sh [FINISHED [PENDING [LANES [TIMES]]]]
#
# On a server of its own, with its defaults: FINISHED deliveries that have an
# end (one in fifty discarded, the others delivered), PENDING ones that have
# none (four in ten fresh, four in ten to be retried, two in ten paused), each
# fact for two lanes.  5000000, 1000000, 10 and 21 unless given; a small run
# to see that it works is "status.sh 5000 1000".  Not a part of check: the
# numbers mean something on an idle machine only.
unset SYSTEM_CLUSTER
. "$(dirname "$0")/../system/daemon-lib.sh"
FINISHED=${1:-5000000} PENDING=${2:-1000000} LANES=${3:-10} TIMES=${4:-21}
begin_daemon bench_status

step() {
	printf '%s %s\n' "$(date +%T)" "$*" >&2
}

step "$LANES lanes"
i=0
while [ $i -lt "$LANES" ]; do
	i=$((i + 1))
	handler "lane$i" </dev/null
done
targets="(SELECT array_agg(target_id ORDER BY target_id) FROM outbox.target)"
fact_key="(SELECT min(contract_key) FROM outbox.contract)"

# facts FROM TO AGE: their rows, published that long ago.
facts() {
	sql "INSERT INTO outbox.fact (fact_id, event_id, contract_key, graph_id,
	         authority_seq, frame_bytes, published_at, occurred_at,
	         workspace, body)
	     OVERRIDING SYSTEM VALUE
	     SELECT n, gen_random_uuid(), $fact_key, 1, 1, 400,
	         now() - interval '$3', now() - interval '$3', 'w', '{\"id\": 1}'
	       FROM generate_series($1, $2) n"
}
# Of each fact of FROM to TO and the two lanes it is for: "fact_id, target_id".
pairs() {
	echo "(SELECT n AS fact_id, (ARRAY[1, 1 + $LANES / 2])[k] + n % greatest($LANES / 2, 1) AS lane
	    FROM generate_series($1, $2) n, generate_series(1, least(2, $LANES)) k) p,
	    LATERAL (SELECT ($targets)[p.lane] AS target_id) t"
}

done_facts=$((FINISHED / 2))
at=0
while [ $at -lt $done_facts ]; do
	to=$((at + 250000))
	[ $to -le $done_facts ] || to=$done_facts
	step "finished deliveries: $((at * 2)) of $FINISHED"
	facts $((at + 1)) $to "1 hour"
	sql "INSERT INTO outbox.receipt SELECT fact_id, target_id, 1, 1,
	         gen_random_uuid(), gen_random_uuid(), now() - interval '50 min'
	       FROM $(pairs $((at + 1)) $to) WHERE fact_id % 50 <> 0"
	sql "INSERT INTO outbox.discarded SELECT target_id, fact_id, 1, 3, 0,
	         'exit 1', now(), 'bench', 'bench'
	       FROM $(pairs $((at + 1)) $to) WHERE fact_id % 50 = 0"
	at=$to
done
all_facts=$((done_facts + PENDING / 2))
while [ $at -lt $all_facts ]; do
	to=$((at + 250000))
	[ $to -le $all_facts ] || to=$all_facts
	step "pending deliveries: $(((at - done_facts) * 2)) of $PENDING"
	facts $((at + 1)) $to "5 min"
	sql "INSERT INTO outbox.fresh SELECT target_id, fact_id
	       FROM $(pairs $((at + 1)) $to) WHERE fact_id % 10 < 4"
	sql "INSERT INTO outbox.exception (target_id, fact_id, status,
	         attempt_count, authority_seq, available_at, due_at,
	         pause_reason, paused_at, last_error)
	     SELECT target_id, fact_id, CASE WHEN paused THEN 'paused' ELSE 'pending' END,
	         1, 1, at, CASE WHEN NOT paused THEN at END,
	         CASE WHEN paused THEN 'handler_rejected' END,
	         CASE WHEN paused THEN now() END, repeat('what it said ', 10)
	       FROM $(pairs $((at + 1)) $to),
	         LATERAL (SELECT fact_id % 10 >= 8 AS paused, now() - interval '1 min'
	             + random() * interval '1 hour' AS at) s
	      WHERE fact_id % 10 >= 4"
	at=$to
done
sql "UPDATE outbox.lane SET pos = $done_facts"
sql "SELECT outbox.heartbeat(gen_random_uuid(), 'host', 1, '0',
    $targets, 1000000, 300000, false)" >/dev/null
step "VACUUM (ANALYZE)"
psql -Xq -c "VACUUM (ANALYZE)"

say() {
	printf '%-46s %s\n' "$1" "$2"
}
# spread MS...: the middle, the least and the most of them.
spread() {
	printf '%s\n' "$@" | sort -n | awk '{ v[NR] = $1 }
	    END { printf "median %d ms, min %d, max %d", v[int((NR + 1) / 2)], v[1], v[NR] }'
}
# timed COMMAND...: milliseconds; it must not fail for want of a database.
timed() {
	local start
	start=$(now_ms)
	"$@" >"$T/out" 2>"$T/err"
	[ $? -le 1 ] || { cat "$T/err" >&2; exit 70; }
	echo $(($(now_ms) - start))
}
# rounds COMMAND...: TIMES of them.
rounds() {
	local i=0
	while [ $i -lt "$TIMES" ]; do
		i=$((i + 1))
		timed "$@"
	done
}
alive() {
	sql "UPDATE outbox.daemon SET last_seen_at = now() + interval '1 h'"
}
# The server's own memory goes with a restart, the machine's cache only if we
# may drop it.
cold() {
	local i=0
	while [ $i -lt "$TIMES" ]; do
		i=$((i + 1))
		server_stop fast
		sync
		(echo 3 >/proc/sys/vm/drop_caches) 2>/dev/null
		server_start || exit 70
		sql "SELECT 1" >/dev/null
		timed "$@"
	done
}

alive
sql "SELECT 'deliveries finished and not: ' ||
    (SELECT count(*) FROM outbox.receipt) + (SELECT count(*) FROM outbox.discarded)
    || ', ' || (SELECT count(*) FROM outbox.fresh)
    + (SELECT count(*) FROM outbox.exception)"
sql "SELECT 'database: ' || pg_size_pretty(pg_database_size(current_database()))"
echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
ctl status >/dev/null 2>&1
say "status" "$(spread $(rounds "$OUTBOXCTL" status))"
say "status --json" "$(spread $(rounds "$OUTBOXCTL" status --json))"
say "top --once" "$(spread $(rounds "$OUTBOXCTL" top --once))"
say "a connection and SELECT 1, psql" \
    "$(spread $(rounds psql -XAtqc 'SELECT 1'))"
say "status, server just started" \
    "$(spread $(cold "$OUTBOXCTL" status))"
echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
