#!/bin/sh
# Start, stop, reload and what systemd is told.
. "$(dirname "$0")/lib.sh"
begin daemon-signals
. "$ROOT/tests/system/daemon.sh"

# ---- exits at start ----

exits "an unknown option is 64" 64 "$OUTBOXD" --nonsense
exits "an argument too many is 64" 64 "$OUTBOXD" now
exits "--version is 0" 0 "$OUTBOXD" --version
like "and says it" "$OUT" "outboxd [0-9]*"
exits "a config that is not there is 78" 78 "$OUTBOXD" -c "$T/none.yaml"
printf 'dispatch:\n  batch: none\n' >"$T/bad.yaml"
exits "a config with an error is 78" 78 "$OUTBOXD" -c "$T/bad.yaml"
like "and has line and column" "$ERR" "*bad.yaml:2:*"

daemon_config "$T/outboxd.yaml" "stop: {timeout: 1s}"
exits "-t prints what is in effect" 0 "$OUTBOXD" -t -c "$T/outboxd.yaml"
like "all of it" "$OUT" "*poll_interval: 1s*"

# a server that asks for a login which does not exist
sed "s/user=$PGUSER/user=nobody_here/" "$T/outboxd.yaml" >"$T/login.yaml"
exits "a login that is refused is 77" 77 timeout 20 "$OUTBOXD" \
    -c "$T/login.yaml"

# ---- waiting to be ready ----

NOTIFY_SOCKET=$T/notify WATCHDOG_USEC=1000000
export NOTIFY_SOCKET WATCHDOG_USEC
perl -MIO::Socket::UNIX -MSocket -e '
    $| = 1;
    my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => shift)
	or die; while (1) { $s->recv(my $m, 4096); print "$m\n" }' \
    "$T/notify" >"$T/told" 2>&1 &
LISTENER=$!
DAEMONS="$DAEMONS $LISTENER"
wait_for 5 test -S "$T/notify"

told() {
	grep -qE "$1" "$T/told"
}

"$OUTBOXD" -c "$T/outboxd.yaml" >"$T/daemon.log" 2>&1 &
DAEMON=$!
DAEMONS="$DAEMONS $DAEMON"
wait_for 10 told '^STATUS=waiting for the schema'
is "without a schema it waits, and says so" $? 0
told '^READY=1'
is "and is not ready" $? 1
setup "stop: {timeout: 1s}" \
    "subscribers: {test.puppet.h: {environment: {RECORD: $T/record}}}"
install puppet
wait_for 10 told '^READY=1'
is "with the schema it is ready" $? 0
: >"$T/told"
wait_for 5 told '^WATCHDOG=1'
is "the watchdog is fed" $? 0
kill -STOP "$DAEMON"
sleep 0.3
: >"$T/told"
sleep 1.2
told '^WATCHDOG=1'
is "but not by a loop that stands still" $? 1
kill -CONT "$DAEMON"
unset NOTIFY_SOCKET WATCHDOG_USEC

exits "a stop while it waits for a database is 0" 0 sh -c '
    sed "s/dbname=[^\"]*/dbname=not_there/" "$1" >"$2" &&
    { timeout -s TERM 2 "$3" -c "$2"; [ $? -eq 124 ]; }' - \
    "$T/outboxd.yaml" "$T/nodb.yaml" "$OUTBOXD"

# ---- reload ----

e=$(make_do "exit 0")
becomes "a delivery before the reload" "$e" "status = 'delivered'"
: >"$T/told"
cp "$T/bad.yaml" "$T/saved"
cp "$T/outboxd.yaml" "$T/good.yaml"
cp "$T/bad.yaml" "$T/outboxd.yaml"
kill -HUP "$DAEMON"
wait_for 5 test "$(logged reload_refused)" || :
wait_for 5 told '^READY=1'
is "a reload tells RELOADING and READY" \
    "$(grep -cE '^(RELOADING=1|MONOTONIC_USEC=[0-9]+|READY=1)$' "$T/told")" 3
like "a bad file is refused with line and column" \
    "$(grep reload_refused "$T/daemon.log")" "*outboxd.yaml:2:*"
cp "$T/good.yaml" "$T/outboxd.yaml"
sed -i 's/timeout: 1s/timeout: 2s/; s/RECORD: /NEW: here, RECORD: /' \
    "$T/outboxd.yaml"
echo 'memory: {max_items: 7}' >>"$T/outboxd.yaml"
kill -HUP "$DAEMON"
wait_for 5 grep -q event=reloaded "$T/daemon.log"
is "a good one is read" $? 0
like "what is new is said" "$(grep config_changed "$T/daemon.log")" \
    "*key=stop.timeout*"
like "what needs a restart is said" \
    "$(grep 'needs a restart' "$T/daemon.log")" "*memory.max_items*"
e=$(make_do "echo \$NEW >$T/new")
becomes "the new environment is used" "$e" "status = 'delivered'"
is "as it was written" "$(cat "$T/new")" here

# ---- other signals ----

kill -USR1 "$DAEMON"
wait_for 5 grep -q event=state_lane "$T/daemon.log"
is "SIGUSR1 logs a page" $? 0
like "with each lane" "$(grep state_lane "$T/daemon.log")" \
    "*subscriber=test.puppet.h*"
kill -USR2 "$DAEMON"
wait_for 5 grep -q 'event=log_level.*level=debug' "$T/daemon.log"
is "SIGUSR2 goes to debug" $? 0
e=$(make_do "exit 0")
becomes "a delivery at level debug" "$e" "status = 'delivered'"
like "debug tells each start" "$(grep event=started "$T/daemon.log")" \
    "*event_id=$e*"
for i in 1 2 3; do kill -USR2 "$DAEMON"; sleep 0.1; done

# ---- stop ----

f=$(make_do "sleep 0.7")
g=$(make_do "trap '' TERM; sleep 4")
waits "$f" "status = 'claimed'"
waits "$g" "status = 'claimed'"
begun=$(date +%s%3N)
stop_daemon
is "a stop is exit 0" $? 0
took=$(($(date +%s%3N) - begun))
[ "$took" -lt 5000 ] && ok "within its limit and the grace" ||
    not_ok "within its limit and the grace" "$took ms"
is "who finishes in time is delivered" "$(field "$f" status)" delivered
is "who does not is released, uncounted" \
    "$(field "$g" "status || attempt_count")" pending0
is "systemd was told" "$(grep -c '^STOPPING=1' "$T/told")" 1
is "and the database" "$(sql "SELECT stopping FROM outbox.daemons
    WHERE pid = $DAEMON")" t
start_daemon "$T/outboxd.yaml"
waits "$g" "status = 'claimed'"
kill -TERM "$DAEMON"
sleep 0.2
begun=$(date +%s%3N)
stop_daemon INT
is "a second signal stops at once, with 0" $? 0
took=$(($(date +%s%3N) - begun))
[ "$took" -lt 1500 ] && ok "at once indeed" || not_ok "at once indeed" "$took"
is "and releases what ran" "$(field "$g" "status || attempt_count")" pending0
