#!/bin/sh
# first-light.sh - a first look at speed and size, with exec handlers.
#
# On a server of its own, commits durable (fsync on): deliveries a second
# beside the machine's bare spawn rate, publish calls a second, commit to
# handler start at 100 events/s, memory of the daemon.  Not a part of check:
# the numbers mean something on an idle machine only.
unset SYSTEM_CLUSTER
. "$(dirname "$0")/../system/daemon-lib.sh"
begin_daemon bench
SECONDS_EACH=${SECONDS_EACH:-10}
AT_ONCE=${AT_ONCE:-8}
COUNT=${COUNT:-3000}

for tool in spawnrate stamp; do
	cc -O2 -o "$T/$tool" "$ROOT/tests/bench/$tool.c" || exit 69
done
psql -Xq -c "ALTER SYSTEM SET fsync = on" \
    -c "ALTER SYSTEM SET full_page_writes = on" \
    -c "ALTER SYSTEM SET track_commit_timestamp = on"
# the command line of server_start has switched both off
server_stop fast
as_server "$PG_BIN/pg_ctl" -D "$SYSTEM_CLUSTER/pg/data" -w -s \
    -l "$SYSTEM_CLUSTER/pg/log" -o "-k $SYSTEM_CLUSTER/pg" \
    -o "-c listen_addresses=''" start >/dev/null || exit 70
sed -i '/^plugins:/d' "$T/outboxd.yaml"
cat >>"$T/outboxd.yaml" <<YAML
plugins: {store: $STORE, max_processes: 64}
dispatch: {concurrency: $AT_ONCE}
log: {level: warn}
YAML
COMMAND=bin/handle BINARY=/bin/true handler true
COMMAND="bin/handle, $T/stamps" BINARY=$T/stamp handler stamp

bench() { # SCRIPT OPTIONS...: transactions a second
	echo "$1" >"$T/script.sql"
	shift
	"$PG_BIN/pgbench" -n -f "$T/script.sql" "$@" 2>/dev/null |
	    sed -n 's/^tps = \([0-9]*\).*/\1/p'
}
single="SELECT outbox.publish('on.true', 'v1', '{\"id\": 1}');"
many="SELECT count(*) FROM unnest(outbox.publish_many('on.true', 'v1',
    array_fill('{\"id\": 1}'::json, ARRAY[100])));"
say() {
	printf '%-52s %s\n' "$1" "$2"
}

say "publish calls/s, one client" "$(bench "$single" -c 1 -T "$SECONDS_EACH")"
say "publish calls/s, eight clients" \
    "$(bench "$single" -c 8 -j 2 -T "$SECONDS_EACH")"
say "facts/s by publish_many of 100, one client" \
    "$(($(bench "$(echo $many)" -c 1 -T "$SECONDS_EACH") * 100))"
sql "TRUNCATE outbox.fresh, outbox.fact CASCADE" >/dev/null

start_daemon "$T/outboxd.yaml"
wait_for $SLOW sql_is t "SELECT count(*) = 2 FROM outbox.lanes WHERE daemons > 0"
say "RSS idle, kB" "$(rss_kb $DAEMON)"
for round in 1 2 3; do
	bare=$("$T/spawnrate" "$SECONDS_EACH" "$AT_ONCE" /bin/true)
	sql "TRUNCATE outbox.receipt" >/dev/null
	publish true "$COUNT" >/dev/null
	SLOW=600 delivered true "$COUNT"
	rate=$(sql "SELECT round((count(*) - 1) / extract(epoch FROM
	    max(delivered_at) - min(delivered_at))) FROM outbox.receipt")
	say "deliveries/s of true, $AT_ONCE at once ($round)" "$rate"
	say "  bare vfork + exec + wait" "$bare"
	say "  per cent of it" "$((rate * 100 / bare))"
done
say "RSS after $((3 * COUNT)) deliveries, kB" "$(rss_kb $DAEMON)"

total=$((SECONDS_EACH * 100))
bench "SELECT outbox.publish('on.stamp', 'v1', '{\"id\": 1}');" \
    -c 4 -j 2 -R 100 -t $((total / 4)) >/dev/null
wait_for 600 has_lines "$total" "$T/stamps"
psql -XAtq <<SQL | while IFS='|' read -r p50 p99 most; do
CREATE TEMP TABLE s (event_id uuid, us bigint);
\\copy s FROM '$T/stamps'
SELECT round(percentile_cont(0.5) WITHIN GROUP (ORDER BY ms)::numeric, 2),
       round(percentile_cont(0.99) WITHIN GROUP (ORDER BY ms)::numeric, 2),
       round(max(ms)::numeric, 2)
  FROM (SELECT s.us / 1000.0
               - extract(epoch FROM pg_xact_commit_timestamp(x.xmin)) * 1000 AS ms
          FROM s JOIN outbox.fact x USING (event_id)) m;
SQL
	say "commit to handler's main at 100/s, ms: p50" "$p50"
	say "  p99" "$p99"
	say "  worst" "$most"
done
ps -o etimes=,cputimes= -p $DAEMON | while read -r age cpu; do
	say "CPU seconds of the daemon in $age s" "$cpu"
done
sleep 5
start=$(awk '{print $14 + $15}' /proc/$DAEMON/stat)
sleep 20
say "CPU of the idle daemon in 20 s, ms" \
    "$((($(awk '{print $14 + $15}' /proc/$DAEMON/stat) - start) * 10))"
stop_daemon TERM
