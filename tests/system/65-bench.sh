#!/bin/sh
# The shortest form of tests/bench/run, without the systems beside.
. "$(dirname "$0")/lib.sh"
begin bench

ROUNDS=1 SIZE=smoke SECONDS_EACH=1 RATES=50 PEERS= RESULTS_DIR=$T/results
export ROUNDS SIZE SECONDS_EACH RATES PEERS RESULTS_DIR
exits "an axis that is none is 64" 64 "$ROOT/tests/bench/run" speed
like "and those that there are are named" "$ERR" "*drain*latency*"

passes "the shortest bench runs to its end" "$ROOT/tests/bench/run" drain latency
like "it prints a table" "$OUT" "*drain *per second *outboxd *"
is "and writes it as Markdown" "$(grep -c '^| drain .* per second | outboxd' \
    "$T/results/drain-latency.md")" 4
json=$(cat "$T/results/drain-latency.json")
is "and as JSON" "$(json "$json" results,0,axis)" drain
is "everything was measured" "$(sql "SELECT count(*) FROM json_array_elements(
    \$json\$$json\$json\$::json -> 'results') r
    WHERE r ->> 'what' IN ('per second', 'p99 ms')
    AND (r ->> 'median')::numeric > 0")" 5
