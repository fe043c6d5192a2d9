# daemon-lib.sh - what the scripts of tests/system about the daemon share.
#
# A script begins with
#
#	. "$(dirname "$0")/daemon-lib.sh"
#	begin_daemon NAME
#
# and has from then on a database with the schema in it.  handler installs a
# plugin around a shell script, publish commits facts for it, start_daemon
# runs the daemon.
#
# Handlers tell what they do in files below $T, for what the daemon says of
# itself is what is tested.

. "$(dirname "$0")/../system/lib.sh"

# The machine may be slow: conditions get long, and time is only measured
# where a sentence is about it.
SLOW=40

begin_daemon() {
	begin "$1"
	ctl schema install >/dev/null 2>"$T/err" ||
	    { cat "$T/err" >&2; exit 70; }
	mkdir "$T/lock" "$T/run" "$T/tmp"
	TMPDIR=$T/tmp # where private directories are made
	export TMPDIR
	daemon_config "$T/outboxd.yaml"
}

# handler NAME [LINE...]: the plugin test.NAME, installed and active.  Its
# handler "run" is the shell script on standard input, which finds $T set, and
# subscribes to the contract on.NAME@v1, or to $CONTRACT.  Lines are added to
# the handler's part of the manifest.
handler() {
	local name=$1 contract=${CONTRACT:-on.$1@v1} dir
	dir=$T/bundle/$name-${VERSION:-1}
	mkdir -p "$dir/bin"
	if [ -n "${BINARY:-}" ]; then
		cp "$BINARY" "$dir/bin/handle"
	else
		{
			printf '#!/bin/sh\nT=%s\n' "$T"
			cat
		} >"$dir/bin/handle"
	fi
	chmod 755 "$dir/bin/handle"
	shift
	cat >"$dir/plugin.yaml" <<-YAML
		plugin: test.$name
		version: "${VERSION:-1}"
		protocol: exec
		command: [${COMMAND:-bin/handle}]
		${LIMITS:+limits: $LIMITS}
		handlers:
		  run:
		    version: "${HANDLER_VERSION:-1}"
		    subscribes: [{contract: $contract}]
	YAML
	[ $# -eq 0 ] || printf '    %s\n' "$@" >>"$dir/plugin.yaml"
	sql "SELECT outbox.contract_add('${contract%@*}', '${contract#*@}')" \
	    >/dev/null
	if ! ctl plugin install "$dir" --store "$STORE" >"$T/err" 2>&1 ||
	    ! ctl plugin activate "test.$name@${VERSION:-1}" --grant-all \
	    >>"$T/err" 2>&1; then
		cat "$T/err" >&2
		exit 70
	fi
}

# publish NAME [COUNT [BODY]]: facts under on.NAME@v1, in one transaction.
publish() {
	sql "SELECT unnest(outbox.publish_many('on.$1', 'v1',
	    array_fill('${3:-{\}}'::json, ARRAY[${2:-1}])))"
}

# count NAME STATUS: deliveries of test.NAME.run.
count() {
	sql "SELECT count(*) FROM outbox.deliveries
	    WHERE subscriber_id = 'test.$1.run' AND status = '$2'"
}

# delivery NAME COLUMNS: of the one delivery, or of all in order.
delivery() {
	sql "SELECT $2 FROM outbox.deliveries
	    WHERE subscriber_id = 'test.$1.run' ORDER BY fact_id"
}

# attempts NAME [COLUMNS]: of its attempts that did not simply succeed.
attempts() {
	sql "SELECT ${2:-outcome} FROM outbox.attempts
	    WHERE subscriber_id = 'test.$1.run' ORDER BY ended_at, attempt" |
	    paste -sd' '
}

# delivered NAME COUNT: all of them, waiting for it.
delivered() {
	wait_for $SLOW sql_is "$2" "SELECT count(*) FROM outbox.deliveries
	    WHERE subscriber_id = 'test.$1.run' AND status = 'delivered'"
}

# wait_status NAME STATUS: until its one delivery is that.
wait_status() {
	wait_for $SLOW sql_is "$2" "SELECT status FROM outbox.deliveries
	    WHERE subscriber_id = 'test.$1.run'"
}

# logged PATTERN: how many lines of the daemon's log.
logged() {
	grep -c -- "$1" "$T/daemon.log"
}

lines() {
	if [ -e "$1" ]; then
		grep -c '' "$1"
	else
		echo 0
	fi
}

has_lines() { # COUNT FILE: for wait_for
	[ "$(lines "$2")" -ge "$1" ]
}

now_ms() {
	date +%s%3N
}

# launch [ARG...]: a daemon that need not come to work; DAEMON is its process.
launch() {
	"$OUTBOXD" -c "$T/outboxd.yaml" "$@" >>"$T/daemon.log" 2>&1 &
	DAEMON=$!
	DAEMONS="$DAEMONS $DAEMON"
}

ended() { # PID
	! kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status"
}

# has_ended PID: waits for it, its status is in $STATUS.
has_ended() {
	wait_for $SLOW ended "$1" || return
	wait "$1"
	STATUS=$?
}

rss_kb() {
	sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"
}

# Whether the daemon was built with ASan, which keeps for a while what is freed.
keeps_freed() {
	ldd "$OUTBOXD" 2>/dev/null | grep -q libasan
}

descriptors() { # only root may count those of a process that is not dumpable
	ls "/proc/$1/fd" 2>/dev/null | wc -l
}
