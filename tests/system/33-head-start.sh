#!/bin/sh
# Claims ahead of what can start: held by quick lanes alone, delivered once,
# and given back, untried, when they cannot start soon.
. "$(dirname "$0")/daemon-lib.sh"
. "$(dirname "$0")/worker-lib.sh"
. "$(dirname "$0")/admin-lib.sh"
begin_daemon head-start
PLUGINS=$ROOT/tests/plugins
QUICK=1500 # long enough to show a pace
EIGHT='deadline: 60s
    concurrency: 8
    retry: {base: 100ms, cap: 300ms, max_attempts: 3, max_crashes: 3}'
SHORT=$(echo "$EIGHT" | sed 's/60s/3s/')
cp "$T/outboxd.yaml" "$T/base.yaml"

# with HEAD_START [LEASE [DEADLINE]]: the config of the next daemon.
with() {
	sed '/^plugins:/d' "$T/base.yaml" >"$T/outboxd.yaml"
	cat >>"$T/outboxd.yaml" <<-YAML
		log: {level: debug}
		dispatch:
		  head_start: $1
		  lease: ${2:-5m}
		  deadline: ${3:-10s}
		  kill_grace: 300ms
		  settle_margin: 1s
		  breaker: {failures: 1000, open: 10m}
		plugins: {store: $STORE, environment: {RECORD: $T/record}}
	YAML
	with_admin
	RECORD=$T/record
}

in_status() { # NAME STATUS
	sql "SELECT count(*) FROM outbox.deliveries
	    WHERE subscriber_id = 'test.$1.h' AND status = '$2'"
}

# more_than N NAME STATUS, for wait_for; exactly N NAME STATUS
more_than() {
	[ "$(in_status "$2" "$3")" -gt "$1" ]
}
exactly() {
	[ "$(in_status "$2" "$3")" -eq "$1" ]
}

# untried NAME: what is said of those that are not delivered and not claimed.
untried() {
	sql "SELECT DISTINCT status, attempt_count, crash_count,
	    last_error IS NULL FROM outbox.deliveries WHERE
	    subscriber_id = 'test.$1.h' AND status NOT IN ('delivered', 'claimed')"
}

given_back() { # NAME: how many, by their history
	sql "SELECT count(*) FROM outbox.attempts
	    WHERE subscriber_id = 'test.$1.h' AND outcome = 'not_started'"
}

ends() { # NAME: of its events, deliveries and how often each ran to its end
	sql "SELECT event_id FROM outbox.deliveries
	    WHERE subscriber_id = 'test.$1.h'" | sort >"$T/events"
	sed -n 's/^end [^ ]* [^ ]* [^ ]* \([^ ]*\) .*/\1/p' "$T/record" | sort |
	    join - "$T/events" >"$T/ends"
	echo "$(lines "$T/ends") $(sort -u "$T/ends" | grep -c '')"
}

# gate NAME MORE: quick ones, 8 that wait for $T/NAME.go, and more quick ones.
gate() {
	HANDLER=${HANDLER:-$EIGHT} worker "$1"
	sql "SELECT count(*) FROM (SELECT outbox.publish('on.$1', 'v1',
	    json_build_object('do', CASE WHEN n > $QUICK AND n <= $QUICK + 8
		THEN 'until $T/$1.go; ack' ELSE 'ack' END))
	    FROM generate_series(1, $QUICK + 8 + $2) n) x" >/dev/null
}

gated() { # NAME: the quick ones before the gate are through
	wait_for $SLOW exactly $QUICK "$1" delivered
}

on_bus() { # COUNT
	[ "$(json "$(ask /v1/status)" bus,buffered) $(
	    json "$(ask /v1/status)" bus,in_flight)" = "0 $1" ]
}

# ---- a quick lane holds what it cannot start yet ----
with 5s
gate a 2000
start_daemon "$T/outboxd.yaml" || exit 70
passes "a lane of 8 holds more than 8 claims" \
    wait_for $SLOW more_than 8 a claimed
gated a
is "what is held is more than what runs" \
    "$([ "$(in_status a claimed)" -gt 16 ] && echo yes)" yes
if command -v curl >/dev/null; then
	status=$(ask /v1/status)
	is "status tells them apart" "$(json "$status" lanes,0,in_flight) $([ \
	    "$(json "$status" lanes,0,held)" -gt 8 ] && echo held)" "8 held"
	like "so does outboxctl status" "$(ctl -c "$T/outboxd.yaml" status)" \
	    "*lane test.a.h 1, 8 in flight, [1-9]*[0-9] held*"
	is "and its JSON" "$(json "$(ctl -c "$T/outboxd.yaml" status --json)" \
	    lanes_here,0,in_flight)" 8
	is "the bus has them as buffered" "$([ "$(json "$status" bus,buffered)" \
	    -gt 8 ] && echo yes)" yes
	is "the metrics have them" "$([ "$(metric \
	    'outboxd_lane_held{subscriber="test.a.h",version="1"}')" -gt 8 ] &&
	    echo yes)" yes
fi
: >"$T/a.go"
passes "all are delivered" wait_for $SLOW exactly $((QUICK + 2008)) a delivered
is "each ran once" "$(ends a)" "$((QUICK + 2008)) $((QUICK + 2008))"
is "at its first attempt" "$(sql "SELECT DISTINCT attempt_count, crash_count
    FROM outbox.deliveries WHERE subscriber_id = 'test.a.h'")" "1|0"
if command -v curl >/dev/null; then
	passes "nothing is charged to the bus afterwards" \
	    wait_for $SLOW on_bus 0
fi

# ---- a stop while it holds ----
gate stop 2000
wait_for $SLOW more_than 8 stop claimed
gated stop
claimed=$(in_status stop claimed)
kill -TERM "$DAEMON"
passes "a stop gives back at once what is held" \
    wait_for 6 exactly 8 stop claimed
is "while the 8 run on" "$(kill -0 "$DAEMON" && echo alive) $([ "$claimed" \
    -gt 8 ] && echo held)" "alive held"
is "as if they had never been claimed" "$(untried stop)" "pending|0|0|t"
: >"$T/stop.go"
has_ended "$DAEMON"
is "the daemon ends with 0" "$STATUS" 0
is "and the 8 are delivered" "$(in_status stop delivered)" $((QUICK + 8))
start_daemon "$T/outboxd.yaml" || exit 70
passes "the next one delivers the others" \
    wait_for $SLOW exactly $((QUICK + 2008)) stop delivered
is "each ran once, too" "$(ends stop)" "$((QUICK + 2008)) $((QUICK + 2008))"

# ---- a lane that breaks off ----
HANDLER=$EIGHT worker down
sql "SELECT count(*) FROM (SELECT outbox.publish('on.down', 'v1',
    json_build_object('do', CASE n WHEN $QUICK
	THEN 'once $T/down; unavailable' ELSE 'ack' END))
    FROM generate_series(1, $QUICK + 2000) n) x" >/dev/null
passes "a lane that breaks off gives back all" \
    wait_for $SLOW logs 1 'event=breaker_opened.*test.down.h'
passes "and keeps nothing" wait_for $SLOW exactly 0 down claimed
is "none of it was tried but the one that said so" "$(sql "SELECT
    attempt_count, crash_count, count(*) > 1 FROM outbox.deliveries
    WHERE subscriber_id = 'test.down.h' AND status = 'pending'
    GROUP BY 1, 2 ORDER BY 1" | paste -sd' ')" "0|0|t 1|0|f"
passes "it was held before" [ "$(given_back down)" -gt 8 ]
stop_daemon
start_daemon "$T/outboxd.yaml" || exit 70
passes "they are delivered when it works" \
    wait_for $SLOW exactly $((QUICK + 2000)) down delivered

# ---- a lane that is paused ----
stop_daemon
with 250ms
start_daemon "$T/outboxd.yaml" || exit 70
HANDLER=$EIGHT worker pause
tell_many 6000 pause ack
wait_for $SLOW more_than 1500 pause delivered
ctl subscriber pause test.pause.h --reason "for a test" >/dev/null
passes "a lane that is paused gives back what it holds" \
    wait_for $SLOW exactly 0 pause claimed
is "untried" "$(untried pause)" "pending|0|0|t"
is "and is not claimed again" "$(in_status pause claimed)" 0
ctl subscriber resume test.pause.h >/dev/null
passes "resumed, it gets the rest" wait_for 120 exactly 6000 pause delivered
is "and each ran once" "$(ends pause)" "6000 6000"

# ---- a lane that turns slow ----
gate slow 600
gated slow
passes "a lane that turns slow gives back what it holds" \
    wait_for $SLOW exactly 8 slow claimed
is "untried, too" "$(untried slow)" "pending|0|0|t"
passes "it did hold something" [ "$(given_back slow)" -gt 0 ]
first=$DAEMON
start_daemon "$T/outboxd.yaml" "$T/second.log" || exit 70
passes "another daemon delivers it" \
    wait_for $SLOW exactly $((QUICK + 600)) slow delivered
is "while the first one waits for its 8" "$(in_status slow claimed)" 8
: >"$T/slow.go"
passes "which are delivered at last" \
    wait_for $SLOW exactly $((QUICK + 608)) slow delivered
is "and no two ran the same" "$(ends slow)" "$((QUICK + 608)) $((QUICK + 608))"
stop_daemon TERM
stop_daemon TERM "$first"

# ---- without ----
with 0
start_daemon "$T/outboxd.yaml" || exit 70
HANDLER=$EIGHT worker off
tell_many $QUICK off ack
most=0
watch_off() {
	n=$(in_status off claimed)
	[ "$n" -le "$most" ] || most=$n
	exactly $QUICK off delivered
}
wait_for $SLOW watch_off
is "without a head start never more than 8 are claimed" \
    "$([ "$most" -le 8 ] && echo "at most 8" || echo "$most")" "at most 8"
gate none 100
gated none
wait_for $SLOW exactly 8 none claimed
is "nothing is held behind those that run" "$(in_status none claimed) $(
    untried none)" "8 pending|0|0|t"
: >"$T/none.go"
passes "and all are delivered" \
    wait_for $SLOW exactly $((QUICK + 108)) none delivered
is "nothing was given back" "$(given_back off) $(given_back none)" "0 0"
stop_daemon TERM

# ---- a daemon that dies while it holds ----
with 5s 6s 3s
start_daemon "$T/outboxd.yaml" || exit 70
HANDLER=$SHORT gate kill 2000
wait_for $SLOW more_than 8 kill claimed
gated kill
claimed=$(in_status kill claimed)
stop_daemon KILL
worker=$(sed -n 's/^hello \([0-9]*\) test.kill .*/\1/p' "$T/record" | tail -n 1)
wait_for $SLOW ended "$worker"
: >"$T/kill.go"
start_daemon "$T/outboxd.yaml" || exit 70
passes "what a daemon held when it was killed is delivered" \
    wait_for 60 exactly $((QUICK + 2008)) kill delivered
is "it did hold" "$([ "$claimed" -gt 8 ] && echo yes)" yes
is "what it held ran once, for it had not begun" "$(ends kill | cut -d' ' -f2) $(
    sort "$T/ends" | uniq -d | wc -l)" "$((QUICK + 2008)) 0"
is "and is no suspect by that" "$(sql "SELECT max(crash_count) < 2
    FROM outbox.deliveries WHERE subscriber_id = 'test.kill.h'")" t
stop_daemon TERM
is "it stops with 0" $? 0
