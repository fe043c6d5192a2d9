#!/bin/sh
# A daemon that may open 40 files and start few processes: no crash, nothing
# counts as a failure, and work goes on at the cap.
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon scarce
. "$ROOT/tests/system/hostile-lib.sh"
AGES=$T/run/ages
N=${SCARCE:-150}

handler many 'deadline: 30s' 'concurrency: 40' \
    'retry: {base: 50ms, max_attempts: 1, max_crashes: 1}' <<'SH'
exec sleep 0.2
SH
ARGS=$AGES bundle healthy steady worker 'concurrency: 8'
activate healthy

back() { # how many were claimed, could not be started and were released
	sql "SELECT count(*) FROM outbox.attempts WHERE outcome = 'not_started'"
}

# scarce WORDS EXEC WORKER: publishes, waits, and looks at what was counted.
scarce() {
	local crashes
	publish many "$N" >/dev/null
	publish healthy 50 >/dev/null
	passes "$1: all of the exec lane are delivered" delivered many "$2"
	passes "$1: and all of the worker's" delivered healthy "$3"
	is "$1: each in its first attempt, and none has crashed" "$(sql "SELECT
	    max(attempt_count), max(crash_count) FROM outbox.deliveries")" "1|0"
	is "$1: nothing was counted as a failure" "$(sql "SELECT
	    string_agg(DISTINCT outcome, ' ') FROM outbox.attempts
	    WHERE outcome NOT IN ('not_started', 'interrupted')")" ""
	passes "$1: the daemon lives" kill -0 "$DAEMON"
}

# ---- descriptors ----
cat >"$T/few" <<SH
#!/bin/sh
ulimit -n 40
exec $OUTBOXD "\$@"
SH
chmod 755 "$T/few"
SLOW=60
program=$OUTBOXD
OUTBOXD=$T/few
start_daemon "$T/outboxd.yaml" || exit 70
scarce "40 files" "$N" 50
like "40 files: it said at the start that they are few" \
    "$(grep event=limit_low "$T/daemon.log")" "*level=warn*"
given=$(back)
echo "# 40 files: $given were given back and taken again"
below 1 "$given" && ok "40 files: they were few indeed" ||
    not_ok "40 files: they were few indeed"
stop_daemon TERM
is "40 files: it stops with 0" $? 0

# ---- processes ----
# As another user, whose processes are counted: the kernel asks root for no
# limit.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null &&
    command -v prlimit >/dev/null; then
	cp "$program" "$T/outboxd"
	chmod 755 "$T" "$T/outboxd"
	chmod 1777 "$T/run" "$T/tmp"
	# of a user that nobody else has, so that only ours count
	cat >"$T/few" <<-SH
		#!/bin/sh
		exec prlimit --nproc=12 \\
		    setpriv --reuid 64321 --regid 64321 --clear-groups \\
		    $T/outboxd "\$@"
	SH
	rm -f "$AGES"
	: >"$T/daemon.log"
	OUTBOXD=$T/few
	start_daemon "$T/outboxd.yaml" || exit 70
	scarce "12 processes" $((2 * N)) 100
	given=$(($(back) - given))
	echo "# 12 processes: $given were given back and taken again"
	below 1 "$given" && ok "12 processes: they were few indeed" ||
	    not_ok "12 processes: they were few indeed"
	stop_daemon TERM
	is "12 processes: it stops with 0" $? 0
else
	echo "# skipped: few processes need root and setpriv"
fi

# ---- the cap of the config ----
sed -i '/^plugins:/d' "$T/outboxd.yaml"
echo "plugins: {store: $STORE, max_processes: 3}" >>"$T/outboxd.yaml"
OUTBOXD=$program
rm -f "$AGES"
before=$(count many delivered)
start_daemon "$T/outboxd.yaml" || exit 70
scarce "max_processes 3" $((before + N)) $(($(count healthy delivered) + 50))
