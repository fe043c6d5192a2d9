#!/bin/sh
# plugins.user: what a hostile plugin tries from another uid fails, whoever
# the daemon is; credentials reach the right one; what a killed daemon left is
# found.  Only root can change users.
. "$(dirname "$0")/daemon-lib.sh"
if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null; then
	echo "# skipped: needs root and setpriv"
	exit 0
fi
begin_daemon isolation
. "$ROOT/tests/system/hostile-lib.sh"
NOBODY=$(id -u nobody)

# Handlers reach their bundle and private directory, and leave notes.
chmod 755 "$T"
chmod 1777 "$T/run"
mkdir "$T/bin" "$T/secret"
cp "$OUTBOXD" "$T/bin/outboxd"
cp "$BUILD/tests/plugins/assail" "$T/bin/assail"
echo for-alice >"$T/secret/alice"
echo for-bob >"$T/secret/bob"
chmod -R go= "$T/secret"

peer_only

# ---- the hostile one ----
# Each line it writes is a wall that did not hold.
PSQL=$(command -v psql)
handler hostile 'deadline: 30s' 'concurrency: 1' <<SH
exec 2>/dev/null
D=\$PPID N=$T/run/\$OUTBOX_EVENT_ID
try() { # NAME COMMAND...
	name=\$1; shift
	if "\$@" >/dev/null 2>&1; then echo "\$name" >>"\$N"; fi
}
other=\$(cat $T/run/alice.pid)
where=\$(cat $T/run/alice.dir)
try config cat $T/outboxd.yaml
try secret cat $T/secret/alice
try environment cat /proc/\$D/environ
try memory sh -c ": </proc/\$D/mem"
try maps cat /proc/\$D/maps
try descriptors ls /proc/\$D/fd/
try auxiliary cat /proc/\$D/auxv
try trace $T/bin/assail \$D
try signal kill -0 \$D
try stop kill -STOP \$D
try bundle sh -c "echo : >>\$0"
try mode chmod u+w \$0
try rename mv \$0 \$0.old
try beside touch "\${0%/*}/x"
try store touch $STORE/x
try database $PSQL -w -h $PGHOST -p $PGPORT -U postgres -d $PGDATABASE -c 'SELECT 1'
try listing ls \$TMPDIR/..
try neighbour touch \$TMPDIR/../x
try other-environment cat /proc/\$other/environ
try other-directory ls /proc/\$other/cwd/
try other-memory sh -c ": </proc/\$other/mem"
try other-trace $T/bin/assail \$other
[ ! -e $T/run/signals ] || try other-signal kill -0 \$other
[ ! -e $T/run/paths ] || try other-credential cat \$where/token
[ ! -e $T/run/paths ] || try outside cat $T/readable/file
{ id -u; id -g; id -G; grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status |
    grep -v ':.0000000000000000\$'; stat -c '%u %a' .; cat /proc/self/oom_score_adj
} >"\$N.who"
echo tried >>"\$N.end"
SH
# The neighbour: has a credential, says where, and waits.
handler alice 'deadline: 60s' 'concurrency: 1' <<'SH'
cp "$OUTBOX_CREDENTIALS_DIRECTORY/token" "$T/run/alice.got.$$"
stat -c '%a %u' "$OUTBOX_CREDENTIALS_DIRECTORY/token" >"$T/run/alice.stat"
echo "$OUTBOX_CREDENTIALS_DIRECTORY" >"$T/run/alice.dir"
echo $$ >"$T/run/alice.pid"
mv "$T/run/alice.got.$$" "$T/run/alice.got"
until [ -e "$T/run/go" ]; do sleep 0.1; done
SH
handler bob <<'SH'
cat "$OUTBOX_CREDENTIALS_DIRECTORY"/* >"$T/run/bob.got"
SH
handler plain <<'SH'
echo "${OUTBOX_CREDENTIALS_DIRECTORY-none}" >"$T/run/plain.got"
SH
# Interpreters need more than a shell does.
handler interpreters <<'SH'
cat >event
/usr/bin/python3 -c 'import json, ssl, tempfile, subprocess
json.load(open("event")); tempfile.NamedTemporaryFile()
subprocess.run(["true"], check=True)' 2>&1 || exit 1
[ ! -x /usr/bin/node ] || /usr/bin/node -e 'require("https")
JSON.parse(require("fs").readFileSync("event"))
require("child_process").execFileSync("true")' 2>&1
SH

# A worker serves its handlers in one process, which gets the credentials of
# all.
dir=$T/bundle/worker
mkdir -p "$dir/bin"
cat >"$dir/bin/work" <<SH
#!/bin/sh
printf '{"type":"hello","protocol":"worker/1"}\n{"type":"ready"}\n' >&3
while read -r line; do
	call=\$(echo "\$line" | sed -n 's/.*"call":"\([0-9]*\)".*/\1/p')
	id=\$(echo "\$line" | sed -n 's/^.*"type":"ping","id":"\([0-9]*\)".*/\1/p')
	case \$line in
	*'"type":"deliver"'*)
		echo "\$(id -un) \$(cat "\$OUTBOX_CREDENTIALS_DIRECTORY/first" \
		    "\$OUTBOX_CREDENTIALS_DIRECTORY/second" |
		    paste -sd' ')" >$T/run/worker.got
		printf '{"type":"result","call":"%s","outcome":"ack"}\n' "\$call" >&3 ;;
	*'"type":"ping"'*)
		printf '{"type":"pong","id":"%s"}\n' "\$id" >&3 ;;
	*'"type":"drain"'*) exit 0 ;;
	esac
done
SH
chmod 755 "$dir/bin/work"
cat >"$dir/plugin.yaml" <<YAML
plugin: test.worker
version: "1"
protocol: worker
command: [bin/work]
handlers:
  one: {version: "1", subscribes: [{contract: on.worker@v1}]}
  two: {version: "1", subscribes: [{contract: on.worker@v1}]}
YAML
ctl contract add on.worker@v1 >/dev/null
ctl plugin install "$dir" --store "$STORE" >/dev/null &&
    ctl plugin activate test.worker@1 --grant-all >/dev/null || exit 70

config() { # [PATHS]
	daemon_config "$T/outboxd.yaml"
	sed -i '/^plugins:/d' "$T/outboxd.yaml"
	cat >>"$T/outboxd.yaml" <<-YAML
		plugins: {store: $STORE, user: nobody${1:+, paths: $1}}
		dispatch: {kill_grace: 500ms}
		subscribers:
		  test.alice.run: {credentials: {token: $T/secret/alice}}
		  test.bob.run: {credentials: {token: $T/secret/bob}}
		  test.worker.one: {credentials: {first: $T/secret/alice}}
		  test.worker.two: {credentials: {second: $T/secret/bob}}
	YAML
	chmod 600 "$T/outboxd.yaml"
}

# assault NAME: with the daemon that runs.
assault() {
	local id
	rm -f "$T/run"/alice.* "$T/run/go" "$T/run"/*.got
	publish alice >/dev/null
	wait_for $SLOW test -s "$T/run/alice.got"
	id=$(publish hostile)
	wait_for $SLOW test -s "$T/run/$id.end"
	is "$1: nothing that a hostile plugin tries works" \
	    "$(cat "$T/run/$id" 2>/dev/null | paste -sd' ') $(cat "$T/run/$id.end")" " tried"
	is "$1: it has the ids of plugins.user, no groups, no capabilities" \
	    "$(sed 4,5d "$T/run/$id.who" | paste -sd' ')" \
	    "$NOBODY $(id -g nobody) $(id -g nobody)"
	is "$1: its private directory is its own, and it is the victim" \
	    "$(sed -n '4,5p' "$T/run/$id.who" | paste -sd' ')" "$NOBODY 700 500"
	is "$1: a credential comes to whom it is for, and only it may read it" \
	    "$(cat "$T/run/alice.got" "$T/run/alice.stat" | paste -sd' ')" \
	    "for-alice 400 $NOBODY"
	publish bob >/dev/null
	publish plain >/dev/null
	wait_for $SLOW test -s "$T/run/plain.got" -a -s "$T/run/bob.got"
	is "$1: another gets its own of the same name, and one without gets none" \
	    "$(cat "$T/run/bob.got" "$T/run/plain.got" | paste -sd' ')" "for-bob none"
	publish worker >/dev/null
	wait_for $SLOW test -s "$T/run/worker.got"
	is "$1: a worker has that user, and the credentials of its handlers" \
	    "$(cat "$T/run/worker.got")" "nobody for-alice for-bob"
	publish interpreters >/dev/null
	: >"$T/run/go"
	passes "$1: interpreters run there" delivered interpreters "$2"
	wait_for $SLOW sh -c "! test -e '$(cat "$T/run/alice.dir")'"
	is "$1: credentials are gone when their process is" \
	    "$(ls -d "$(cat "$T/run/alice.dir")" 2>/dev/null)" ""
}

level() {
	sql "SELECT detail ->> 'isolation' FROM outbox.daemons WHERE alive
	    AND NOT stopping ORDER BY started_at DESC LIMIT 1"
}

# What this kernel's Landlock does, as the daemon sees it.
config
start_daemon "$T/outboxd.yaml"
LANDLOCK=$(level | sed -n 's/.*[^o] landlock \([0-9]*\).*/\1/p')
if [ -z "$LANDLOCK" ]; then
	echo "# skipped: what Landlock is needed for"
	sed -i '/^try other-/d' "$T"/bundle/hostile-1/bin/handle
else
	[ "$LANDLOCK" -lt 6 ] || : >"$T/run/signals"
fi
like "status tells the level" "$(ctl status)" "*other-uid (nobody)*"
like "as JSON too" "$(ctl --json status | tr -d '\n')" \
    '*"isolation":*"other-uid (nobody)*'
kill -USR1 "$DAEMON"
passes "and the page of SIGUSR1" wait_for $SLOW \
    grep -q 'event=state .*isolation="other-uid (nobody)' "$T/daemon.log"
assault root 1

# ---- a deadline, and what runs from its group ----
handler stubborn 'deadline: 500ms' 'concurrency: 1' \
    'retry: {base: 50ms, max_attempts: 1}' <<'SH'
trap '' TERM
setsid sh -c 'trap "" TERM; echo $$ >>'"$T"'/run/fled; while :; do sleep 1; done' &
while :; do sleep 1; done
SH
publish stubborn >/dev/null
wait_for $SLOW test -s "$T/run/fled"
wait_status stubborn paused
passes "the daemon ends what has another uid, and what fled from it" \
    wait_for $SLOW ended "$(cat "$T/run/fled")"
is "as one that timed out" "$(attempts stubborn)" timed_out

# ---- a killed daemon ----
handler left 'deadline: 30s' <<'SH'
[ ! -e "$T/run/left" ] || exit 0
mkdir -p deep/er
cd deep
setsid sh -c 'echo $$ >>'"$T"'/run/left; sleep 1000' &
sleep 1000
SH
publish left >/dev/null
wait_for $SLOW test -s "$T/run/left"
stop_daemon KILL
: >"$T/daemon.log"
start_daemon "$T/outboxd.yaml"
passes "what a killed daemon left with another uid is killed by the next" \
    ended "$(cat "$T/run/left")"
is "which says so" "$(logged event=earlier_cleared)" 1
passes "and removes its directories" \
    wait_for $SLOW sh -c "[ \"\$(ls '$TMPDIR' | wc -l)\" = 1 ]"
sql "SELECT outbox.release_claims(worker) FROM outbox.daemons" >/dev/null
stop_daemon TERM
is "the daemon stops with 0" $? 0
is "and leaves no directory" "$(ls "$TMPDIR" | wc -l)" 0

# ---- as the unit runs it: no root, three capabilities ----
cat >"$T/bin/unit" <<SH
#!/bin/sh
exec setpriv --reuid daemon --regid daemon --clear-groups \\
    --inh-caps -all,+setuid,+setgid,+kill \\
    --ambient-caps -all,+setuid,+setgid,+kill \\
    --bounding-set -all,+setuid,+setgid,+kill --no-new-privs \\
    $T/bin/outboxd "\$@"
SH
chmod 755 "$T/bin/unit"
OUTBOXD=$T/bin/unit
: >"$T/daemon.log"
chmod 666 "$T/daemon.log"
chown -R daemon "$T/secret" "$T/tmp"
[ -z "$LANDLOCK" ] || : >"$T/run/paths"
mkdir "$T/readable"
echo x >"$T/readable/file"
config "{read: [$T/bin], write: [$T/run]}"
chown daemon "$T/outboxd.yaml"
start_daemon "$T/outboxd.yaml"
assault unit 2
if [ -n "$LANDLOCK" ]; then
	like "the level tells that paths are kept" "$(level)" "*landlock $LANDLOCK (paths)*"
fi
publish stubborn >/dev/null
wait_for $SLOW sql_is 2 "SELECT count(*) FROM outbox.deliveries
    WHERE subscriber_id = 'test.stubborn.run' AND status = 'paused'"
is "unit: a deadline is kept" "$(attempts stubborn)" "timed_out timed_out"
is "unit: nothing was degraded that need not be" \
    "$(grep event=isolation_degraded "$T/daemon.log" |
	grep -vE 'cgroup|Landlock' | sed 's/.*msg=//')" ""
stop_daemon TERM
is "unit: the daemon stops with 0" $? 0
is "unit: and leaves no directory" "$(ls "$T/tmp" | wc -l)" 0

# ---- who cannot ----
sed -i 's/,+setuid,+setgid,+kill//' "$T/bin/unit"
launch
has_ended "$DAEMON"
is "without the capabilities it does not start" "$STATUS" 78
like "and says what it needs" "$(tail -n 3 "$T/daemon.log")" "*CAP_SETUID*"
OUTBOXD=$T/bin/outboxd
sed -i 's/user: nobody/user: no_such_user/' "$T/outboxd.yaml"
launch
has_ended "$DAEMON"
is "nor with a user that does not exist" "$STATUS" 78
like "which it names" "$(tail -n 3 "$T/daemon.log")" "*no_such_user*"
