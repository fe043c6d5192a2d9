#!/bin/sh
# calls.sh [BUILD]: calls a second through one worker process of each SDK,
# without a database, beside bare pipes.  SECONDS_EACH is 3.
cd "$(dirname "$0")/../.." || exit 70
build=${1:-build}
case $build in /*) ;; *) build=$PWD/$build ;; esac

for n in 1 16 64; do
	printf "C:      "
	"$build/bench/calls" "${SECONDS_EACH:-3}" $n "$build/bench/noop"
	printf "Python: "
	"$build/bench/calls" "${SECONDS_EACH:-3}" $n \
	    "$(python3 -c 'import sys; print(sys.executable)')" \
	    "$PWD/tests/bench/noop/noop.py"
	printf "Node:   "
	"$build/bench/calls" "${SECONDS_EACH:-3}" $n "$(command -v node)" \
	    "$PWD/tests/bench/noop/noop.js"
done
