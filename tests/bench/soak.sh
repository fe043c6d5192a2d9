#!/bin/sh
# soak.sh [--exec N] [--calls N] - many exec runs and worker calls through a
# real daemon and database; afterwards it has the descriptors, children and
# memory that it had before, and nothing defunct.
#
# N is 100000 runs and 1000000 calls unless given; progress on standard error.
# What is before is taken after a first hundredth of each, which grows what
# is kept for good.  RSS may be SOAK_RSS kB more (4096).
. "$(dirname "$0")/../system/daemon-lib.sh"
RUNS=100000 CALLS=1000000
while [ $# -gt 0 ]; do
	case $1 in
	--exec) RUNS=$2 ;;
	--calls) CALLS=$2 ;;
	*) echo "usage: soak.sh [--exec N] [--calls N]" >&2 && exit 64 ;;
	esac
	shift 2 || exit 64
done
begin_daemon soak
. "$ROOT/tests/system/hostile-lib.sh"
BATCH=10000
LEEWAY=${SOAK_RSS:-4096}

echo 'log: {level: warn}' >>"$T/outboxd.yaml"
COMMAND=bin/handle BINARY=/bin/true handler run 'deadline: 60s' 'concurrency: 8'
ARGS=/dev/null bundle call steady worker 'concurrency: 64'
activate call
start_daemon "$T/outboxd.yaml" || exit 70

settled() {
	sql_is f "SELECT EXISTS (SELECT FROM outbox.deliveries
	    WHERE status IN ('pending', 'claimed'))"
}

# through NAME COUNT: in transactions of BATCH, one after the other.
through() {
	local done=0 n
	while [ "$done" -lt "$2" ]; do
		n=$(($2 - done < BATCH ? $2 - done : BATCH))
		publish "$1" "$n" >/dev/null
		done=$((done + n))
		wait_for 600 settled || break
		[ $((done % 50000)) -ge "$BATCH" ] ||
		    echo "soak: $1 $done of $2, RSS $(rss_kb "$DAEMON") kB," \
			"$(descriptors "$DAEMON") descriptors" >&2
	done
}

# state: descriptors, children, defunct ones.
state() {
	echo "$(descriptors "$DAEMON") $(children | grep -c .)" \
	    "$(children | grep -c ' Z')"
}
is_state() {
	[ "$(state)" = "$BEFORE" ]
}

warm=$((RUNS / 100 > 50 ? RUNS / 100 : 50))
through run "$warm"
through call $((CALLS / 100 > 2000 ? CALLS / 100 : 2000))
BEFORE=$(state) RSS=$(rss_kb "$DAEMON")
for kind in "run $RUNS" "call $CALLS"; do
	name=${kind% *} wanted=${kind#* }
	had=$(count "$name" delivered) began=$(now_ms)
	through "$name" "$wanted"
	took=$(($(now_ms) - began + 1))
	echo "# $wanted of $name in $((took / 1000)) s:" \
	    "$((wanted * 1000 / took)) a second"
	is "soak: all $wanted of $name are delivered" \
	    "$(($(count "$name" delivered) - had))" "$wanted"
done
is "soak: each in its first attempt" "$(sql "SELECT count(*)
    FROM outbox.deliveries WHERE attempt_count <> 1")" 0
wait_for 20 is_state
is "soak: as many descriptors and children as before, none defunct" \
    "$(state)" "$BEFORE"
rss=$(rss_kb "$DAEMON")
echo "# RSS $RSS kB before, $rss kB after; descriptors, children, defunct: $BEFORE"
if keeps_freed; then
	echo "# ASan keeps what is freed: memory is not measured"
elif below "$rss" $((RSS + LEEWAY)); then
	ok "soak: memory within $LEEWAY kB of before"
else
	not_ok "soak: memory within $LEEWAY kB of before" "$RSS kB, then $rss kB"
fi
stop_daemon TERM
is "soak: it stops with 0" $? 0
is "soak: no private directory is left" "$(ls "$TMPDIR")" ""
