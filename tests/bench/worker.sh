#!/bin/sh
# worker.sh - deliveries a second through one worker process of each SDK, end
# to end: publish, claim, call, settle, receipt.
#
# On a server of its own, commits durable (fsync on).  COUNT bodies of 200
# bytes wait when the daemon starts; with 1, 16 and 64 at once, and for C
# with 512 and 2000, too.  Beside each stands what bench-calls measures
# without a database.  The numbers mean something on an idle machine only.
unset SYSTEM_CLUSTER
. "$(dirname "$0")/../system/daemon-lib.sh"
begin_daemon bench
COUNT=${COUNT:-50000}
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

# bundle LANGUAGE IN_FLIGHT FILE...: the plugin bench.LANGUAGE.
bundle() {
	local dir=$T/bundle/$1-$2 name=$1 at_once=$2
	shift 2
	mkdir -p "$dir"
	cp "$@" "$dir/"
	cat >"$dir/plugin.yaml" <<-YAML
		plugin: bench.$name
		version: "$at_once"
		protocol: worker
		command: [${1##*/}]
		handlers:
		  ack:
		    version: "1"
		    subscribes: [{contract: on.$name@v1}]
		    concurrency: $at_once
		    deadline: 30s
	YAML
	sql "SELECT outbox.contract_add('on.$name', 'v1')" >/dev/null
	ctl plugin install "$dir" --store "$STORE" >/dev/null &&
	    ctl plugin activate "bench.$name@$at_once" --grant-all >/dev/null
}

# drain LANGUAGE IN_FLIGHT COUNT: deliveries a second.
drain() {
	sql "TRUNCATE outbox.receipt" >/dev/null
	sql "SELECT count(outbox.publish_many('on.$1', 'v1',
	    array_fill('$BODY'::json, ARRAY[1000])))
	    FROM generate_series(1, $3 / 1000)" >/dev/null
	sql "VACUUM ANALYZE" >/dev/null
	start_daemon "$T/outboxd.yaml"
	wait_for 600 sql_is "$3" "SELECT count(*) FROM outbox.receipt" ||
	    echo "not all are delivered" >&2
	printf '%-7s %5d at once: %8s deliveries/s\n' "$1" "$2" "$(sql "
	    SELECT round((count(*) - 1) / extract(epoch FROM
	    max(delivered_at) - min(delivered_at))) FROM outbox.receipt")"
	stop_daemon TERM
}

sed -i 's/log: .*/log: {level: warn}/' "$T/outboxd.yaml"
grep -q '^log:' "$T/outboxd.yaml" || echo 'log: {level: warn}' >>"$T/outboxd.yaml"
echo 'memory: {max_items: 10000}' >>"$T/outboxd.yaml"
for n in ${IN_FLIGHT:-1 16 64 512 2000}; do
	count=$COUNT
	[ "$n" -gt 1 ] || count=5000
	bundle c "$n" "$BUILD/bench/noop"
	drain c "$n" $count
	[ "$n" -le 64 ] || continue
	bundle python "$n" "$ROOT/tests/bench/noop/noop.py" \
	    "$ROOT/sdk/python/outbox_plugin.py"
	drain python "$n" $count
	bundle node "$n" "$ROOT/tests/bench/noop/noop.js" \
	    "$ROOT/sdk/node/outbox-plugin.js"
	drain node "$n" $count
done
