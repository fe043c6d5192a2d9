#!/bin/sh
# head-start.sh - what dispatch.head_start gives: deliveries a second through
# one C worker, end to end, commits durable, with and without it.
#
# COUNT bodies of 200 bytes wait when the daemon starts.  ROUNDS rounds, with
# and without in turn.
unset SYSTEM_CLUSTER
. "$(dirname "$0")/../system/daemon-lib.sh"
begin_daemon bench
COUNT=${COUNT:-30000}
ROUNDS=${ROUNDS:-3}
[ -x "$BUILD/bench/noop" ] || { echo "make bench-calls first" >&2; exit 69; }
psql -Xq -c "ALTER SYSTEM SET fsync = on" \
    -c "ALTER SYSTEM SET full_page_writes = on" \
    -c "ALTER SYSTEM SET shared_buffers = '1GB'"
# the command line of server_start has switched both off
server_stop fast
as_server "$PG_BIN/pg_ctl" -D "$SYSTEM_CLUSTER/pg/data" -w -s \
    -l "$SYSTEM_CLUSTER/pg/log" -o "-k $SYSTEM_CLUSTER/pg" \
    -o "-c listen_addresses=''" start >/dev/null || exit 70

BODY='{"order":42,"text":"'$(printf '%0178d' 0)'"}'
sed -i 's/log: .*/log: {level: warn}/' "$T/outboxd.yaml"
grep -q '^log:' "$T/outboxd.yaml" || echo 'log: {level: warn}' >>"$T/outboxd.yaml"
echo "memory: {max_items: ${ITEMS:-10000}}" >>"$T/outboxd.yaml"
cp "$T/outboxd.yaml" "$T/plain.yaml"

# bundle AT_ONCE: the plugin bench.c of that version.
bundle() {
	mkdir -p "$T/bundle/$1"
	cp "$BUILD/bench/noop" "$T/bundle/$1/"
	cat >"$T/bundle/$1/plugin.yaml" <<-YAML
		plugin: bench.c
		version: "$1"
		protocol: worker
		command: [noop]
		handlers:
		  ack:
		    version: "1"
		    subscribes: [{contract: on.c@v1}]
		    concurrency: $1
		    deadline: 30s
	YAML
	ctl plugin install "$T/bundle/$1" --store "$STORE" >/dev/null &&
	    ctl plugin activate "bench.c@$1" --grant-all >/dev/null
}

# drain AT_ONCE HEAD_START COUNT
drain() {
	sed "/^dispatch:/,\$ !b" "$T/plain.yaml" >"$T/outboxd.yaml"
	echo "dispatch: {head_start: $2, batch: ${BATCH:-500}}" >>"$T/outboxd.yaml"
	sql "TRUNCATE outbox.receipt" >/dev/null
	sql "SELECT count(outbox.publish_many('on.c', 'v1',
	    array_fill('$BODY'::json, ARRAY[1000])))
	    FROM generate_series(1, $3 / 1000)" >/dev/null
	sql "VACUUM ANALYZE" >/dev/null
	start_daemon "$T/outboxd.yaml"
	wait_for 600 sql_is "$3" "SELECT count(*) FROM outbox.receipt" ||
	    echo "not all are delivered" >&2
	printf '%5d at once, head start %5s: %8s deliveries/s\n' \
	    "$1" "$2" "$(sql "
	    SELECT round((count(*) - 1) / extract(epoch FROM
	    max(delivered_at) - min(delivered_at))) FROM outbox.receipt")"
	stop_daemon TERM
}

sql "SELECT outbox.contract_add('on.c', 'v1')" >/dev/null
for n in ${IN_FLIGHT:-1 8 64 512}; do
	count=$COUNT
	[ "$n" -gt 1 ] || count=5000
	bundle "$n"
	for round in $(seq "$ROUNDS"); do
		drain "$n" 0ms $count
		drain "$n" 250ms $count
	done
done
