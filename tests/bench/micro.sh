#!/bin/sh
# micro.sh [BUILD]: single operations of the daemon: nanoseconds, allocations,
# and instructions as callgrind counts them, which are the same in every run.
cd "$(dirname "$0")/../.." || exit 70
micro=${1:-build}/bench/micro
out=$(mktemp) || exit 70
trap 'rm -f "$out"' EXIT

# instructions NAME N
instructions() {
	valgrind --tool=callgrind --callgrind-out-file=/dev/null \
	    "$micro" "$1" "$2" 2>&1 | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

"$micro" >"$out" || exit
printf '%-40s %10s %12s %14s\n' operation ns allocations instructions
while IFS='	' read -r name what ns allocations; do
	count=-
	if command -v valgrind >/dev/null; then
		step=1
		[ "$name" != bus_500 ] || step=500
		few=$(instructions "$name" 20)
		many=$(instructions "$name" 120)
		count=$(((many - few) / (100 * step)))
	fi
	printf '%-40s %10s %12s %14s\n' "$what" "$ns" "$allocations" "$count"
done <"$out"
