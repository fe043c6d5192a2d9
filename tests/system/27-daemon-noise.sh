#!/bin/sh
# Handlers that misbehave on their descriptors, and what it costs the daemon.
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon noise
cat >>"$T/outboxd.yaml" <<YAML
dispatch: {kill_grace: 500ms, settle_margin: 1s, concurrency: 8, breaker: {failures: 1000}}
YAML

handler deaf <<'SH'
exec true
SH
handler flood 'concurrency: 2' 'deadline: 30s' <<'SH'
# 10 MB before it reads its input of 1 MB
head -c 10000000 /dev/zero | tr '\0' 'x' >&2
[ "$(cat | wc -c)" = "$OUTBOX_INPUT_BYTES" ] || exit 65
SH
handler dirty 'retry: {max_attempts: 1}' <<'SH'
printf 'nul \000 byte, broken \377\303 utf8, \033[31mcolour\r\n' >&2
printf '2026-01-01T00:00:00Z level=error event=forged msg="owned"\n'
printf 'first\nevent=forged_too verdict=ack\n' >&2
exit 1
SH
handler holds 'concurrency: 4' <<'SH'
setsid sleep 1000 &
exit 0
SH
handler spy 'retry: {max_attempts: 1}' <<'SH'
# what the kernel shows to none but those who may trace the daemon
head -c 1 /proc/$PPID/fd/0 && exit 65
(exec </proc/$PPID/mem) && exit 65
exit 0
SH
handler brood <<'SH'
for i in 1 2 3 4 5 6 7 8 9 10; do
	setsid sleep 1000 &
	echo $! >>"$T/brood"
done
sleep 0.3
SH
handler many 'concurrency: 8' <<'SH'
echo "a line"
echo '{}' >&3
case $OUTBOX_EVENT_ID in *[02468ace]) exit 0 ;; *) exit 0 ;; esac
SH
handler flaky 'concurrency: 8' 'retry: {base: 20ms, cap: 20ms}' <<'SH'
: >file
[ "$OUTBOX_ATTEMPT" -gt 1 ] || { echo "not yet" >&2; exit 1; }
SH
start_daemon "$T/outboxd.yaml"

# ---- each ends as its exit says ----
sql "SELECT outbox.publish_many('on.deaf', 'v1', array_fill(
    to_json(repeat('x', 1000000)), ARRAY[40]))" >/dev/null
passes "1 MB for a handler that reads nothing is delivered" delivered deaf 40
is "at the first attempt" "$(attempts deaf)" ""
sql "SELECT outbox.publish_many('on.flood', 'v1', array_fill(
    to_json(repeat('x', 1000000)), ARRAY[2]))" >/dev/null
passes "10 MB on stderr before reading 1 MB blocks nobody" delivered flood 2
is "at the first attempt, too" "$(attempts flood)" ""
is "the flood is rate limited in the log" \
    "$([ "$(logged 'event=handler_output.*test.flood')" -lt 500 ] && echo limited)" limited
like "and it is said how much was dropped" \
    "$(grep 'event=handler_output.*test.flood' "$T/daemon.log" | tail -1 | tr -d x)" \
    "*dropped=*"
publish holds 4 >/dev/null
passes "a grandchild that holds all descriptors keeps nobody waiting" \
    delivered holds 4
passes "and is found and killed" wait_for $SLOW grep -q 'event=stray_killed' "$T/daemon.log"

publish spy >/dev/null
passes "no handler reads its daemon, not even root's" delivered spy 1
publish brood >/dev/null
delivered brood 1
brood_is_gone() {
	for pid in $(cat "$T/brood"); do
		! kill -0 $pid 2>/dev/null || return 1
	done
}
passes "a brood that fled is killed" wait_for $SLOW brood_is_gone
is "and does not flood the log" \
    "$([ "$(logged 'event=stray_killed')" -lt 10 ] && echo terse)" terse

publish dirty >/dev/null
wait_status dirty paused
is "NUL and broken UTF-8 become storable text in last_error" "$(sql "SELECT
    last_error LIKE '%nul %byte, broken %utf8%' AND octet_length(last_error) <= 4096
    FROM outbox.deliveries WHERE subscriber_id = 'test.dirty.run'")" t
is "a forged line is no line of the log" \
    "$(grep -c '^[^"]*event=forged' "$T/daemon.log")" 0
is "but tagged as the handler's output" \
    "$(logged 'event=handler_output.*test.dirty.run.*event=forged')" 2
is "the log has no control characters and is valid UTF-8" \
    "$(tr -d '\n' <"$T/daemon.log" | LC_ALL=C tr -d '\040-\176\200-\377' | wc -c) $(
	iconv -f UTF-8 -t UTF-8 "$T/daemon.log" >/dev/null 2>&1; echo $?)" "0 0"

# ---- memory and descriptors ----
work() { # N of each kind
	publish many $1 >/dev/null
	publish flaky $(($1 / 2)) >/dev/null
	M=$((${M:-0} + $1)) F=$((${F:-0} + $1 / 2))
	delivered many $M && delivered flaky $F
}
idle_descriptors() {
	[ "$(descriptors $DAEMON)" -le $((1 + ${1:-0})) ]
}
work 60
fds=$(descriptors $DAEMON)
rss=$(rss_kb $DAEMON)
work 300
passes "a few hundred runs are delivered" test $? = 0
passes "no descriptor is lost in them" wait_for $SLOW idle_descriptors $fds
grown=$(($(rss_kb $DAEMON) - rss))
if keeps_freed; then
	echo "# skipped: what ASan holds back is not the daemon's memory"
else
	is "nor memory" \
	    "$([ $grown -lt 2048 ] && echo flat || echo "+$grown kB")" flat
fi
is "nobody is a zombie" "$(ps --ppid $DAEMON -o stat= | grep -c Z)" 0
passes "no private directory is left" wait_for $SLOW sh -c \
    '! ls "$TMPDIR"/*/* 2>/dev/null | grep -q .'
stop_daemon TERM
is "the daemon stops with 0" $? 0
