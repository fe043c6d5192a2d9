# lib.sh - what the scripts of tests/system share.
#
# A script begins with
#
#	. "$(dirname "$0")/lib.sh"
#	begin NAME
#
# and has from then on a PostgreSQL of its own (one cluster for a whole run,
# one database for each script), a scratch directory $T that goes away with
# the script, and psql and outboxctl connected to that database.  As root the
# server runs as postgres, for it refuses root.  The server's time zone and
# date style are odd on purpose.
#
# Every test is one line, "ok - SENTENCE" or "not ok - SENTENCE".

ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$ROOT/$BUILD ;; esac
OUTBOXCTL=$BUILD/outboxctl
OUTBOXD=$BUILD/outboxd
PATH=$BUILD:$PATH
LC_ALL=C.UTF-8
export BUILD PATH LC_ALL
unset PGSERVICE PGPASSWORD PGOPTIONS PGTZ MAINPID
umask 022

# ---- one cluster ----

pg_bin() {
	local dir
	dir=$(pg_config --bindir 2>/dev/null)
	for dir in "$dir" $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null |
	    sort -rV); do
		[ -x "$dir/initdb" ] && echo "$dir" && return
	done
	echo "tests/system: no PostgreSQL server programs found" >&2
	return 69
}

# As whoever may run a server.
as_server() {
	if [ "$(id -u)" -eq 0 ]; then
		(cd / && runuser -u postgres -- "$@")
	else
		"$@"
	fi
}

# Uses the cluster of tests/system/run, or makes one.
cluster_start() {
	[ -n "${PG_BIN:-}" ] || PG_BIN=$(pg_bin) || exit 69
	PATH=$BUILD:$PG_BIN:$PATH # no wrapper around psql: there are many
	[ -z "${SYSTEM_CLUSTER:-}" ] || return 0
	SYSTEM_CLUSTER=$(mktemp -d /tmp/outboxd-test.XXXXXX) || exit 70
	CLUSTER_IS_MINE=1
	chmod 755 "$SYSTEM_CLUSTER"
	mkdir "$SYSTEM_CLUSTER/pg"
	[ "$(id -u)" -ne 0 ] || chown postgres "$SYSTEM_CLUSTER/pg"
	as_server "$PG_BIN/initdb" -D "$SYSTEM_CLUSTER/pg/data" -U postgres \
	    -A trust -E UTF8 --locale=C.UTF-8 --no-sync --no-instructions \
	    >"$SYSTEM_CLUSTER/initdb.log" 2>&1 ||
	    { cat "$SYSTEM_CLUSTER/initdb.log" >&2; exit 70; }
	server_start || exit 70
	PGHOST=$SYSTEM_CLUSTER/pg PGPORT=5432 PGUSER=postgres
	export SYSTEM_CLUSTER PG_BIN PGHOST PGPORT PGUSER
}

server_start() {
	as_server "$PG_BIN/pg_ctl" -D "$SYSTEM_CLUSTER/pg/data" -w -t 60 \
	    -l "$SYSTEM_CLUSTER/pg/log" \
	    -o "-k $SYSTEM_CLUSTER/pg -c listen_addresses='' -c fsync=off" \
	    -o "-c full_page_writes=off -c max_connections=60" \
	    -o "-c timezone=Asia/Kathmandu -c datestyle=German,DMY" \
	    start >"$SYSTEM_CLUSTER/pg_ctl.log" 2>&1 ||
	    { cat "$SYSTEM_CLUSTER/pg_ctl.log" >&2; return 1; }
}

# server_stop [MODE]: fast, immediate or smart.
server_stop() {
	as_server "$PG_BIN/pg_ctl" -D "$SYSTEM_CLUSTER/pg/data" -w -t 60 \
	    -m "${1:-fast}" stop >/dev/null 2>&1
}

# ---- one script ----

# begin NAME: a scratch directory and an empty database.
begin() {
	NAME=$1
	FAILED=0
	DAEMONS=
	trap 'finish $?' EXIT
	trap 'exit 130' INT TERM HUP
	cluster_start
	T=$(mktemp -d /tmp/outboxd-test.XXXXXX) || exit 70
	STORE=$T/store
	mkdir "$STORE"
	PGDATABASE=t_$(echo "$NAME" | tr -c 'a-z0-9\n' _)_$$
	export PGDATABASE
	psql -Xq -d postgres -c "CREATE DATABASE $PGDATABASE" || exit 70
}

finish() {
	local status=$1 pid
	trap - EXIT
	for pid in $DAEMONS; do
		kill -KILL "$pid" 2>/dev/null
	done
	if [ "$status" -ne 0 ] && [ "$FAILED" -eq 0 ]; then
		echo "not ok - $NAME runs to its end (status $status)"
		FAILED=1
	fi
	if [ -n "${CLUSTER_IS_MINE:-}" ]; then
		server_stop immediate
		rm -rf "$SYSTEM_CLUSTER"
	elif [ -n "${PGDATABASE:-}" ]; then
		psql -Xq -d postgres -c \
		    "DROP DATABASE IF EXISTS $PGDATABASE WITH (FORCE)" \
		    >/dev/null 2>&1
	fi
	[ -z "${T:-}" ] || rm -rf "$T"
	[ "$status" -eq 0 ] && [ "$FAILED" -ne 0 ] && status=1
	exit "$status"
}

# ---- tests ----

ok() {
	echo "ok - $*"
}

# not_ok SENTENCE [DETAIL...]: details follow as comments.
not_ok() {
	echo "not ok - $1"
	shift
	[ $# -eq 0 ] || printf '%s\n' "$@" | sed 's/^/#   /'
	FAILED=$((FAILED + 1))
}

# is SENTENCE GOT WANTED
is() {
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		not_ok "$1" "got:    $2" "wanted: $3"
	fi
}

# like SENTENCE TEXT PATTERN: PATTERN as of case.
like() {
	case $2 in
	$3) ok "$1" ;;
	*) not_ok "$1" "got:    $2" "wanted: $3" ;;
	esac
}

# passes SENTENCE COMMAND...: it ends with 0.
passes() {
	local sentence=$1
	shift
	exits "$sentence" 0 "$@"
}

# exits SENTENCE CODE COMMAND...: its output is in $OUT and $ERR afterwards.
exits() {
	local sentence=$1 wanted=$2 status
	shift 2
	"$@" >"$T/out" 2>"$T/err" </dev/null
	status=$?
	OUT=$(cat "$T/out") ERR=$(cat "$T/err")
	if [ "$status" -eq "$wanted" ]; then
		ok "$sentence"
	else
		not_ok "$sentence" "exit $status, wanted $wanted: $*" \
		    "$OUT" "$ERR"
	fi
}

# wait_for SECONDS COMMAND...: until it succeeds; 1 when time is up.
wait_for() {
	local end=$(($(date +%s) + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$(date +%s)" -le "$end" ] || return 1
		sleep 0.05
	done
}

# ---- database and outboxctl ----

sql() {
	PGOPTIONS="-c client_min_messages=warning" \
	    psql -XAtq -v ON_ERROR_STOP=1 -c "$1"
}

# sql_is WANTED QUERY: for wait_for.
sql_is() {
	[ "$(sql "$2")" = "$1" ]
}

ctl() {
	"$OUTBOXCTL" "$@"
}

# json TEXT PATH: a value out of JSON, PATH as "reasons,0,code".  PostgreSQL
# reads it, so what is not JSON is an error.
json() {
	psql -XAtq -v ON_ERROR_STOP=1 -v text="$1" -v path="{$2}" <<-'SQL'
		SELECT :'text'::json #>> :'path'::text[];
	SQL
}

# plugin_make DIR ID VERSION HANDLER CONTRACT@VERSION: a bundle whose handler
# is the shell script on standard input.
plugin_make() {
	mkdir -p "$1/bin"
	cat >"$1/bin/handle"
	chmod 755 "$1/bin/handle"
	cat >"$1/plugin.yaml" <<-YAML
		plugin: $2
		version: $3
		protocol: exec
		command: [bin/handle]
		handlers:
		  $4:
		    version: "1"
		    subscribes: [{contract: $5}]
		    scope: workspace_assignment
		    deadline: 5s
		    retry: {base: 200ms, cap: 1s, max_attempts: 3}
	YAML
}

# ---- daemons ----

# daemon_config FILE [YAML...]: a config for this database and store; further
# arguments are lines of it.
daemon_config() {
	local file=$1
	shift
	cat >"$file" <<-YAML
		database: {conninfo: "host=$PGHOST port=$PGPORT user=$PGUSER dbname=$PGDATABASE"}
		plugins: {store: $STORE}
		admin: {socket: ""}
	YAML
	[ $# -eq 0 ] || printf '%s\n' "$@" >>"$file"
}

# start_daemon FILE [LOG]: sets DAEMON to its process, once it serves.
start_daemon() {
	local log=${2:-$T/daemon.log} before
	before=$(sql "SELECT count(*) FROM outbox.daemons WHERE alive")
	"$OUTBOXD" -c "$1" >>"$log" 2>&1 &
	DAEMON=$!
	DAEMONS="$DAEMONS $DAEMON"
	if ! wait_for 20 sql_is t "SELECT count(*) > 0 FROM outbox.daemons
	    WHERE alive AND NOT stopping AND pid = $DAEMON"; then
		echo "# the daemon did not start ($before lived):"
		sed 's/^/#   /' "$log"
		return 1
	fi
}

# stop_daemon [SIGNAL [PID]]: and waits for its end; the status is its own.
stop_daemon() {
	local pid=${2:-$DAEMON} left= p status=0
	kill "-${1:-TERM}" "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null || status=$?
	for p in $DAEMONS; do
		[ "$p" = "$pid" ] || left="$left $p"
	done
	DAEMONS=$left
	return "$status"
}
