#!/bin/sh
# Metrics: what they say, that they can be read, and that the dashboard and the
# alerts name what there is.  Tracing.
. "$(dirname "$0")/daemon-lib.sh"
. "$(dirname "$0")/admin-lib.sh"
if ! command -v curl >/dev/null; then
	echo "# skipped: curl is missing"
	exit 0
fi
begin_daemon metrics
with_admin
sed -i '/^dispatch:/d' "$T/outboxd.yaml"
echo 'dispatch: {breaker: {failures: 2, open: 1m}}' >>"$T/outboxd.yaml"

handler quick </dev/null
handler bad 'retry: {base: 1h, cap: 1h, max_attempts: 9}' <<'EOT'
echo "it says 018f6f3c-0000-4000-8000-000000000001" >&2
exit 1
EOT
handler trace <<'EOT'
cat >"$T/run/input"
echo "$TRACEPARENT" >"$T/run/env"
EOT
handler slow 'concurrency: 1' <<'EOT'
while [ ! -e "$T/go" ]; do sleep 0.05; done
EOT
launch
wait_for $SLOW answers /readyz 200

# ---- what has happened ----
publish quick 7 >/dev/null
delivered quick 7
event=$(publish bad 2 | head -n 1)
publish slow 30 >/dev/null
settled() { # NAME COUNT
	[ "$(metric "outboxd_deliveries_total{subscriber=\"test.$1.run\",verdict=\"$2\"}")" = "$3" ]
}
passes "acks are counted by subscriber" wait_for $SLOW settled quick ack 7
passes "so are retries" wait_for $SLOW settled bad retry 2
is "attempts have a cause" \
    "$(metric 'outboxd_attempts_total{subscriber="test.bad.run",cause="failed"}')" 2
is "the breaker of who fails is open" \
    "$(metric 'outboxd_lane_breaker{subscriber="test.bad.run",version="1",state="open"}')" 1
is "runs are timed" \
    "$(metric 'outboxd_run_seconds_count{subscriber="test.quick.run"}')" 7
is "so is the way from the commit to the start" \
    "$(metric 'outboxd_start_lag_seconds_count{subscriber="test.quick.run"}')" 7
is "claims are" "$([ "$(metric outboxd_claim_seconds_count)" -gt 3 ] && echo yes)" yes
waiting() { # COUNT
	[ "$(metric 'outboxd_lane_pending{subscriber="test.slow.run",version="1"}')" = "$1" ]
}
passes "what waits is counted" wait_for $SLOW waiting 29
is "what runs, too" \
    "$(metric 'outboxd_lane_in_flight{subscriber="test.slow.run",version="1"}')" 1
is "the oldest has an age" "$(metric \
    'outboxd_lane_oldest_pending_seconds{subscriber="test.slow.run",version="1"}' |
    awk '{ print ($1 > 0 && $1 < 600) ? "yes" : $1 }')" yes
is "a link of its own asked for that" "$(sql "SELECT count(*) >= 3
    FROM pg_stat_activity WHERE application_name = 'outboxd'
    AND datname = current_database()")" t
status=$(ask /v1/status)
is "status has the last error of a lane" "$(for i in 0 1 2 3; do
	json "$status" lanes,$i,last_error
done | grep -c 'it says')" 1

# ---- the text ----
ask /metrics >"$T/metrics"
is "no event is in it" "$(grep -c "$event\|018f6f3c" "$T/metrics")" 0
is "nothing is told twice" "$(grep -v '^#' "$T/metrics" | sed 's/ [^ ]*$//' |
    sort | uniq -d)" ""
is "the build is" "$(grep -c '^outboxd_build_info{version="[0-9.]*"} 1$' \
    "$T/metrics")" 1
if command -v promtool >/dev/null; then
	promtool check metrics <"$T/metrics" >"$T/promtool" 2>&1
	is "promtool finds nothing to say" "$? $(cat "$T/promtool")" "0 "
	passes "nor about the alert rules" promtool check rules \
	    "$ROOT/etc/prometheus-outboxd.rules.yaml"
else
	echo "# skipped: promtool is missing (Debian package prometheus)"
fi
# names FILE: of metrics, without the endings of histograms
names() {
	grep -o 'outboxd_[a-z_]*' "$1" | sed 's/_\(bucket\|sum\|count\)$//' | sort -u
}
sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' "$T/metrics" | sort >"$T/families"
for file in grafana-outboxd.json prometheus-outboxd.rules.yaml; do
	is "$file names only metrics that there are" \
	    "$(names "$ROOT/etc/$file" | comm -23 - "$T/families")" ""
done
json "$(cat "$ROOT/etc/grafana-outboxd.json")" title >"$T/title" 2>&1
is "the dashboard is JSON" "$(cat "$T/title")" outboxd
is "outboxd(8) has every metric" "$(sed 's/^outboxd_//' "$T/families" |
    while read -r name; do
	grep -q "^\.It Li .*\b$name\b" "$ROOT/man/outboxd.8" || echo "$name"
    done)" ""

# ---- what it costs ----
start=$(now_ms)
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	ask /metrics >/dev/null
done
echo "# 20 scrapes of $(wc -c <"$T/metrics") bytes took $(($(now_ms) - start)) ms"
: >"$T/go"
delivered slow 30

# ---- tracing ----
trace=4bf92f3577b34da6a3ce929d0e0e4736
sql "SELECT outbox.publish('on.trace', 'v1', '{}', headers => '{\"traceparent\":
    \"00-$trace-00f067aa0ba902b7-01\", \"tracestate\": \"a=b,c=d\"}')" >/dev/null
delivered trace 1
is "a handler is given the traceparent" "$(cat "$T/run/env")" \
    "00-$trace-00f067aa0ba902b7-01"
is "and in its input both" "$(json "$(cat "$T/run/input")" traceparent) $(
    json "$(cat "$T/run/input")" tracestate)" \
    "00-$trace-00f067aa0ba902b7-01 a=b,c=d"
is "the line of the attempt has the trace" \
    "$(logged "event=settled.*test.trace.run.*trace_id=$trace ")" 1
is "lines of others have none" "$(logged "event=settled.*test.quick.run.*trace_id")" 0

# ---- without the right ----
sql "CREATE ROLE t_dispatcher_$$ LOGIN IN ROLE outbox_dispatcher" >/dev/null
sed -i "s/user=[^ ]* /user=t_dispatcher_$$ /" "$T/outboxd.yaml"
stop_daemon
launch
wait_for $SLOW answers /readyz 200
is "a dispatcher has the right to know the depth" "$(metric outboxd_depth_known)" 1
sql "REVOKE EXECUTE ON FUNCTION outbox.lane_status(int) FROM outbox_dispatcher"
stop_daemon
launch
wait_for $SLOW answers /readyz 200
is "one that has not tells the rest" "$(metric outboxd_depth_known) $(
    metric outboxd_ready)" "0 1"
is "and why" "$(json "$(ask /v1/status)" depth,error)" "SQLSTATE 42501"
stop_daemon
is "it stops with 0" $? 0
sql "DROP OWNED BY t_dispatcher_$$; DROP ROLE t_dispatcher_$$" >/dev/null 2>&1
