#!/bin/sh
# What the service manager is told, and when; with a server of its own that
# is stopped and started.
unset SYSTEM_CLUSTER
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon notify
NOTIFY_SOCKET=$T/notify.sock
WATCHDOG_USEC=1200000
export NOTIFY_SOCKET WATCHDOG_USEC
"$BUILD/tests/system/notify-sink" "$NOTIFY_SOCKET" >"$T/notified" &
DAEMONS="$DAEMONS $!"
wait_for $SLOW test -S "$NOTIFY_SOCKET"

handler quick </dev/null

told() { # PATTERN
	grep -q -- "$1" "$T/notified"
}
# longest PATTERN: ms between two of those datagrams, at most.
longest() {
	awk -v what="$1" '$0 ~ what { if (n++ && $1 - last > most) most = $1 - last
	    last = $1 } END { print most + 0 }' "$T/notified"
}
pings() {
	grep -c WATCHDOG=1 "$T/notified"
}
has_pinged() { # COUNT
	[ "$(pings)" -ge "$1" ]
}

# ---- no database yet ----
server_stop fast
launch
passes "while the database is down it says what is awaited" \
    wait_for $SLOW told 'STATUS=waiting for the database'
passes "and the watchdog is fed, three times its interval and more" \
    wait_for $SLOW has_pinged 7
is "but it is not ready" "$(grep -c READY "$T/notified")" 0
server_start
passes "ready comes with the database" wait_for $SLOW told READY=1
is "after a contact, not before" "$(sql "SELECT count(*) FROM outbox.daemons
    WHERE pid = $DAEMON")" 1
passes "then the status tells what it does" wait_for $SLOW told \
    'STATUS=1 lanes, 0 running'

# ---- the database goes and comes ----
server_stop immediate
passes "when the database goes the status says so" wait_for $SLOW told \
    'STATUS=the database is away'
passes "and the watchdog is fed" wait_for $SLOW has_pinged $(($(pings) + 7))
server_start
publish quick >/dev/null
passes "when it is back work goes on" delivered quick 1
is "no two pings were further apart than the watchdog allows" \
    "$([ "$(longest WATCHDOG=1)" -lt 1200 ] && echo fed || longest WATCHDOG=1)" fed

# ---- reload and stop ----
n=$(grep -c READY "$T/notified")
kill -HUP $DAEMON
wait_for $SLOW told RELOADING=1
passes "a reload says RELOADING with its time" told 'RELOADING=1|MONOTONIC_USEC=[0-9]'
passes "and READY afterwards" wait_for $SLOW sh -c \
    "sed '1,/RELOADING/d' '$T/notified' | grep -q READY=1"
echo 'colour: red' >>"$T/outboxd.yaml"
kill -HUP $DAEMON
wait_for $SLOW grep -q event=reload_refused "$T/daemon.log"
passes "a reload that is refused ends with READY, too" wait_for $SLOW sh -c \
    "[ \$(grep -c READY=1 '$T/notified') = $((n + 2)) ]"

# a loop that does not turn feeds nobody
kill -STOP $DAEMON
before=$(pings)
sleep 1
is "a daemon that hangs feeds no watchdog" \
    "$([ "$(pings)" -le $((before + 1)) ] && echo none)" none
kill -CONT $DAEMON
passes "one that goes on does" wait_for $SLOW has_pinged $((before + 3))
stop_daemon TERM
is "it stops with 0" $? 0
is "having told STOPPING" "$(grep -c STOPPING=1 "$T/notified")" 1
is "after all that, last but for status and pings" "$(sed '1,/STOPPING/d' \
    "$T/notified" | grep -vc 'STATUS=\|WATCHDOG=')" 0
