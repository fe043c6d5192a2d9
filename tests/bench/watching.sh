#!/bin/sh
# watching.sh - what it costs to be watched, and what a full memory weighs.
#
#	watching.sh [COUNT [ROUNDS [BUDGET_MB]]]
#
# On a server of its own.  In each of ROUNDS (5), COUNT (100000) deliveries go
# through one C worker that does nothing: unwatched, with /metrics asked for
# once and ten times a second, with "outboxctl top" open, and with both; one
# after the other, so that what else the machine does meets all alike.  Then
# handlers that never read are given bodies until the budget of BUDGET_MB
# (100) is charged.  Not a part of check.
unset SYSTEM_CLUSTER
. "$(dirname "$0")/../system/daemon-lib.sh"
. "$(dirname "$0")/../system/admin-lib.sh"
COUNT=${1:-100000} ROUNDS=${2:-5} BUDGET_MB=${3:-100}
[ -x "$BUILD/bench/noop" ] || { echo "make tests first" >&2; exit 69; }
begin_daemon bench_watching
with_admin
cat >>"$T/outboxd.yaml" <<-YAML
	log: {level: warn}
	memory: {max_items: 10000}
YAML
mkdir "$T/noop"
cp "$BUILD/bench/noop" "$T/noop/"
cat >"$T/noop/plugin.yaml" <<-YAML
	plugin: bench.c
	version: "1"
	protocol: worker
	command: [noop]
	handlers:
	  ack:
	    version: "1"
	    subscribes: [{contract: on.c@v1}]
	    concurrency: 512
	    deadline: 30s
YAML
sql "SELECT outbox.contract_add('on.c', 'v1')" >/dev/null
ctl plugin install "$T/noop" --store "$STORE" >/dev/null &&
    ctl plugin activate bench.c@1 --grant-all >/dev/null || exit 70

WATCHERS=
scrape() { # A SECOND
	curl -s -o /dev/null --rate "$(($1 * 3600))/h" --unix-socket "$SOCKET" \
	    "http://d/metrics?[1-100000]" &
	WATCHERS="$WATCHERS $!"
	DAEMONS="$DAEMONS $!"
}
open_top() {
	TERM=xterm script -qec "$OUTBOXCTL -c $T/outboxd.yaml top" \
	    "$T/typescript" >/dev/null 2>&1 </dev/null &
	WATCHERS="$WATCHERS $!"
	DAEMONS="$DAEMONS $!"
}
# drain MODE: its deliveries a second, and CPU ms of the daemon for a thousand.
drain() {
	local watcher cpu scrapes rate
	sql "TRUNCATE outbox.receipt, outbox.fact, outbox.fresh" >/dev/null
	sql "SELECT count(outbox.publish_many('on.c', 'v1',
	    array_fill('{\"order\": 42}'::json, ARRAY[1000])))
	    FROM generate_series(1, $COUNT / 1000)" >/dev/null
	psql -Xq -c "VACUUM ANALYZE"
	start_daemon "$T/outboxd.yaml" || exit 70
	WATCHERS=
	case $1 in scrape-1) scrape 1 ;; scrape-10) scrape 10 ;; esac
	case $1 in top) open_top ;; both) scrape 1; open_top ;; esac
	wait_for 600 sql_is "$COUNT" "SELECT count(*) FROM outbox.receipt" ||
	    echo "not all are delivered" >&2
	cpu=$(awk '{ print ($14 + $15) * 10 }' "/proc/$DAEMON/stat")
	scrapes=$(metric outboxd_admin_requests_total)
	for watcher in $WATCHERS; do
		kill "$watcher" 2>/dev/null
		wait "$watcher" 2>/dev/null
	done
	stop_daemon TERM
	rate=$(sql "SELECT round((count(*) - 1) / extract(epoch FROM
	    max(delivered_at) - min(delivered_at))) FROM outbox.receipt")
	echo "$rate" >>"$T/rate.$1"
	echo "$((cpu * 1000 / COUNT))" >>"$T/cpu.$1"
	echo "  $1: $rate deliveries/s, $((cpu * 1000 / COUNT)) ms of CPU a" \
	    "thousand, ${scrapes:-?} requests"
}
median() { # FILE
	sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

MODES="unwatched scrape-1 scrape-10 top both"
echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
round=0
while [ $round -lt "$ROUNDS" ]; do
	round=$((round + 1))
	echo "round $round of $ROUNDS"
	for mode in $MODES; do
		drain $mode
	done
done
echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
plain=$(median "$T/rate.unwatched")
for mode in $MODES; do
	rate=$(median "$T/rate.$mode")
	printf '%-10s median %6d deliveries/s, %3d per cent of unwatched; %d ms of CPU a thousand\n' \
	    $mode "$rate" $((rate * 100 / plain)) "$(median "$T/cpu.$mode")"
done

# ---- a full memory ----
sed -i '/^memory:/d' "$T/outboxd.yaml"
cat >>"$T/outboxd.yaml" <<-YAML
	memory: {max_json_bytes: ${BUDGET_MB}M}
	plugins: {store: $STORE, max_processes: 256}
YAML
sed -i '0,/^plugins:/{/^plugins:/d}' "$T/outboxd.yaml"
handler full "concurrency: 200" "deadline: 10m" <<'SH'
exec sleep 600
SH
kb=$((BUDGET_MB * 1024 / 150)) # 150 bodies, each a little less
start_daemon "$T/outboxd.yaml" || exit 70
wait_for $SLOW answers /readyz 200
echo "RSS of the idle daemon: $(rss_kb "$DAEMON") kB"
sql "SELECT count(outbox.publish('on.full', 'v1', json_build_object('s',
    repeat('x', $kb * 1024 - 600)))) FROM generate_series(1, 200)" >/dev/null
bus() {
	json "$(ask /v1/memory/stats)" "event_bus_resources,$1"
}
is_full() {
	[ "$(bus in_flight)" -ge 145 ] &&
	    [ "$(bus charged_json_bytes)" -gt $((BUDGET_MB * 1024 * 1000)) ]
}
wait_for 120 is_full || echo "the budget was not charged in full" >&2
charged=$(bus charged_json_bytes)
rss=$(rss_kb "$DAEMON")
echo "$(bus in_flight) in flight and $(bus buffered) buffered charge $((charged / 1024)) kB"
echo "RSS with it: $rss kB, $((rss * 100 / (charged / 1024))) per cent of what is charged"
stop_daemon TERM
