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
SHORT=$(echo "$EIGHT" | sed 's/60s/15s/')
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
	    WHERE subscriber_id LIKE 'test.$1.%' AND status = '$2'"
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
	    subscriber_id LIKE 'test.$1.%' AND status NOT IN ('delivered', 'claimed')"
}

given_back() { # NAME: how many, by their history
	sql "SELECT count(*) FROM outbox.attempts
	    WHERE subscriber_id LIKE 'test.$1.%' AND outcome = 'not_started'"
}

ends() { # NAME: of its events, deliveries and how often each ran to its end
	sql "SELECT event_id FROM outbox.deliveries
	    WHERE subscriber_id LIKE 'test.$1.%'" | sort >"$T/events"
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

# ---- its settles gather ----
HANDLER=$EIGHT worker gather
sql "DO \$\$ BEGIN FOR i IN 1..600 LOOP
	PERFORM outbox.publish('on.gather', 'v1', '{\"do\": \"ack\"}');
	COMMIT;
	PERFORM pg_sleep(0.002);
    END LOOP; END \$\$"
wait_for $SLOW exactly 600 gather delivered
# the first ones show its pace; each set has one time
is "what comes one by one is settled every 10 ms" "$(sql "SELECT
    count(DISTINCT at) <= extract(epoch FROM max(at) - min(at)) / 0.008 + 3
    FROM (SELECT r.delivered_at AS at FROM outbox.receipt r
	JOIN outbox.target t USING (target_id)
	WHERE t.subscriber_id = 'test.gather.h'
	ORDER BY r.delivered_at DESC LIMIT 300) x")" t

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
# enough to outlast a slow machine's pause; then they go faster
tell_many 12000 pause "nap $T/pause.go 0.01; ack"
wait_for $SLOW more_than 800 pause delivered
ctl subscriber pause test.pause.h --reason "for a test" >/dev/null
passes "a lane that is paused gives back what it holds" \
    wait_for $SLOW exactly 0 pause claimed
is "untried" "$(untried pause)" "pending|0|0|t"
is "and is not claimed again" "$(in_status pause claimed)" 0
: >"$T/pause.go"
ctl subscriber resume test.pause.h >/dev/null
passes "resumed, it gets the rest" wait_for 120 exactly 12000 pause delivered
is "and each ran once" "$(ends pause)" "12000 12000"

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

# ---- a worker that dies while its lane holds ----
with 5s
start_daemon "$T/outboxd.yaml" || exit 70
HANDLER=$EIGHT worker dies
sql "SELECT count(*) FROM (SELECT outbox.publish('on.dies', 'v1',
    json_build_object('do', CASE n WHEN $QUICK
	THEN 'once $T/dies; exit 9' ELSE 'ack' END))
    FROM generate_series(1, $QUICK + 1000) n) x" >/dev/null
passes "behind a worker that dies all are delivered" \
    wait_for $SLOW exactly $((QUICK + 1000)) dies delivered
is "and only what had begun died with it" "$(sql "SELECT count(*)
    BETWEEN 1 AND 8 FROM outbox.attempts
    WHERE subscriber_id = 'test.dies.h' AND outcome = 'crashed'")" t

# ---- processes, and a lane that goes while it holds ----
handler exec 'concurrency: 4' 'deadline: 60s' <<'SH'
echo start >>"$T/run/exec"
read -r event
case $event in *gate*) until [ -e "$T/exec.go" ]; do sleep 0.05; done ;; esac
SH
sql "SELECT count(*) FROM (SELECT outbox.publish('on.exec', 'v1',
    to_json(CASE WHEN n BETWEEN 301 AND 304 THEN 'gate' ELSE 'go' END))
    FROM generate_series(1, 900) n) x" >/dev/null
wait_for $SLOW exactly 300 exec delivered
passes "quick processes have a head start, too" \
    wait_for $SLOW more_than 4 exec claimed
wait_for $SLOW has_lines 304 "$T/run/exec"
is "no more than 4 run" "$(lines "$T/run/exec")" 304
ctl plugin deactivate test.exec >/dev/null 2>"$T/err" || cat "$T/err"
passes "a lane that goes keeps nothing" \
    wait_for $SLOW exactly 0 exec claimed
passes "all of it is paused" wait_for $SLOW exactly 600 exec paused
is "for that reason, and not for a crash" "$(sql "SELECT DISTINCT pause_reason,
    crash_count FROM outbox.deliveries WHERE subscriber_id = 'test.exec.run'
    AND status = 'paused'")" "installation_inactive|0"
is "nothing of it starts any more" "$(lines "$T/run/exec")" 304
if command -v curl >/dev/null; then
	passes "and nothing of it is left on the bus" wait_for $SLOW on_bus 0
fi
stop_daemon TERM
is "a daemon that held for a lane that went stops with 0" $? 0

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
with 5s 30s 15s
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
    wait_for 120 exactly $((QUICK + 2008)) kill delivered
is "it did hold" "$([ "$claimed" -gt 8 ] && echo yes)" yes
is "what it held ran once, for it had not begun" "$(ends kill | cut -d' ' -f2) $(
    sort "$T/ends" | uniq -d | wc -l)" "$((QUICK + 2008)) 0"
is "and is no suspect by that" "$(sql "SELECT max(crash_count) < 2
    FROM outbox.deliveries WHERE subscriber_id = 'test.kill.h'")" t
stop_daemon TERM
is "it stops with 0" $? 0
