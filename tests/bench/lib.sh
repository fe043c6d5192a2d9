# lib.sh - what the benchmarks share.
#
# A script begins with
#
#	. "$(dirname "$0")/lib.sh"
#	begin_bench NAME
#
# and has from then on a server of its own with durable commits (shared_buffers
# 1 GB, max_connections 300, all else as PostgreSQL comes), a database with
# the schema in it, and a config for daemons.  The numbers mean something on an
# idle machine only.

unset SYSTEM_CLUSTER # nobody else's server
. "$(dirname "$0")/../system/daemon-lib.sh"

BENCH=$ROOT/tests/bench
PREPARED= # bundles that are active
# 200 bytes, as usual events have
BODY='{"id":1,"order":42,"text":"'$(printf '%0171d' 0)'"}'

# In place of that of tests/system/lib.sh, whose server forgets.
server_start() {
	as_server "$PG_BIN/pg_ctl" -D "$SYSTEM_CLUSTER/pg/data" -w -t 60 \
	    -l "$SYSTEM_CLUSTER/pg/log" \
	    -o "-k $SYSTEM_CLUSTER/pg -c listen_addresses=''" \
	    -o "-c shared_buffers=1GB -c max_connections=300" \
	    -o "${SERVER_OPTIONS:-}" \
	    start >"$SYSTEM_CLUSTER/pg_ctl.log" 2>&1 ||
	    { cat "$SYSTEM_CLUSTER/pg_ctl.log" >&2; return 1; }
}

begin_bench() {
	begin_daemon "$1"
	RESULTS=$T/results.tsv
	ROUND=1
	: >"$RESULTS"
	# as in the shipped unit, private directories are made on a tmpfs
	if [ -w /dev/shm ]; then
		RUNTIME_DIRECTORY=$(mktemp -d /dev/shm/outboxd-bench.XXXXXX)
		export RUNTIME_DIRECTORY
	fi
	trap 'end_bench $?' EXIT
	cp "$T/outboxd.yaml" "$T/base.yaml"
}

# Whatever the script has begun ends with it.
end_bench() {
	local status=$1
	kill ${WORKER:-} 2>/dev/null
	[ -z "${PGQD:-}" ] || pgq_rests
	rm -rf "${RUNTIME_DIRECTORY:-}"
	finish "$status"
}

# say TEXT...: progress.
say() {
	echo "# $(date +%H:%M:%S) $*" >&2
}

# note CASE SYSTEM METRIC VALUE: of $AXIS and $ROUND, quietly.
note() {
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$AXIS" "$1" "$2" "$3" "$ROUND" \
	    "$4" >>"$RESULTS"
}

# record CASE SYSTEM METRIC VALUE
record() {
	note "$@"
	say "$AXIS, $1, $2: $3 $4"
}

# div A B [DIGITS]
div() {
	awk -v a="$1" -v b="$2" -v d="${3:-1}" \
	    'BEGIN { printf "%.*f\n", d, b == 0 ? 0 : a / b }'
}

# calm: what was written is on disk and known to the planner.
calm() {
	psql -Xq -c "VACUUM ANALYZE" -c "CHECKPOINT"
}

# ---- what the server, and others, spend ----

# ticks PID [also]: CPU ticks of it and its children; with also, of those that
# have ended, too.
ticks() {
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v of="$1" -v also="${2:-}" '
		{ pid = $1; sub(/^.*\) /, ""); split($0, f, " ") }
		pid == of || f[2] == of { t += f[12] + f[13] }
		pid == of && also != "" { t += f[14] + f[15] }
		END { print t + 0 }'
}

server_ticks() {
	ticks "$(head -n 1 "$SYSTEM_CLUSTER/pg/data/postmaster.pid")" also
}

# Of children of this shell that have ended.
ended_ticks() {
	awk '{ print $16 + $17 }' /proc/$$/stat
}

# meter FILE: where the server's counters stand.  Sessions that have ended
# have told theirs.
meter() {
	{
		server_ticks
		sql "SELECT pg_current_wal_insert_lsn() - '0/0', w.wal_fpi, d.blks_hit,
		    d.blks_read, d.xact_commit, t.dead
		    FROM pg_stat_wal w, pg_stat_database d, (SELECT
			sum(n_tup_upd + n_tup_del) AS dead
			FROM pg_stat_all_tables) t
		    WHERE d.datname = current_database()" | tr '|' '\n'
	} >"$1"
}

# metered CASE SYSTEM COUNT: records what was spent on each of COUNT between
# meter $T/before and meter $T/after.
metered() {
	paste "$T/before" "$T/after" | awk -v n="$3" -v hz="$(getconf CLK_TCK)" '
		BEGIN {
			name[1] = "server CPU us each"; name[2] = "WAL bytes each"
			name[3] = "full pages each"; name[4] = "buffer hits each"
			name[5] = "buffer reads each"
			name[6] = "transactions each"; name[7] = "dead rows each"
		}
		{
			v = $2 - $1
			if (NR == 1)
				v = v * 1000000 / hz
			printf "%s\t%.*f\n", name[NR], NR <= 2 ? 1 : 4, v / n
		}' >"$T/metered"
	while IFS='	' read -r metric value; do
		note "$1" "$2" "$metric" "$value"
	done <"$T/metered"
	say "$(sed 's/\(.*\)\t\(.*\)/\1 \2/; s/ each//' "$T/metered" |
	    paste -sd, | sed 's/,/, /g')"
}

# ---- outboxd ----

# nth N: the name of handler, task or queue N: ack, ack2, ack3 ..
nth() {
	echo "ack$([ "$1" -eq 1 ] || echo "$1")"
}

# bundle NAME HANDLERS PROGRAM [ARGUMENT...]: worker plugin bench.NAME; each
# of its handlers ack, ack2 .. gets every event of on.NAME@v1.  PROTOCOL=exec
# makes it one of exec, DEADLINE gives one, and ALONG are files that go along.
bundle() {
	local name=$1 handlers=$2 dir=$T/bundle/$1 n=1 args= a
	case " $PREPARED " in *" $name "*) return ;; esac
	PREPARED="$PREPARED $name"
	mkdir -p "$dir"
	cp "$3" "$dir/run"
	[ -z "${ALONG:-}" ] || cp $ALONG "$dir/"
	shift 3
	for a; do
		args="$args, $a"
	done
	{
		printf 'plugin: bench.%s\nversion: "1"\nprotocol: %s\n' \
		    "$name" "${PROTOCOL:-worker}"
		printf 'command: [run%s]\nhandlers:\n' "$args"
		while [ "$n" -le "$handlers" ]; do
			printf '  %s:\n    version: "1"\n' "$(nth "$n")"
			printf '    subscribes: [{contract: on.%s@v1}]\n' "$name"
			[ -z "${DEADLINE:-}" ] ||
			    printf '    deadline: %s\n' "$DEADLINE"
			n=$((n + 1))
		done
	} >"$dir/plugin.yaml"
	sql "SELECT outbox.contract_add('on.$name', 'v1')" >/dev/null
	ctl plugin install "$dir" --store "$STORE" >/dev/null &&
	    ctl plugin activate "bench.$name@1" --grant-all >/dev/null ||
	    exit 70
}

# without NAME: its plugin is active no more.
without() {
	ctl plugin deactivate "bench.$1" >/dev/null
}

# configure AT_ONCE [YAML...]: config for daemons, as its manual says for
# throughput; HEAD_START gives theirs.
configure() {
	{
		cat "$T/base.yaml"
		echo "dispatch: {batch: 2000, concurrency: $1${HEAD_START:+, head_start: $HEAD_START}}"
		echo 'memory: {max_items: 20000, max_topics: 4096, max_consumers: 4096}'
		echo 'log: {level: warn}'
		shift
		[ $# -eq 0 ] || printf '%s\n' "$@"
	} >"$T/outboxd.yaml"
}

# fill_outboxd NAME COUNT [BODY]: facts, in sets of 1000, in transactions of at
# most 100000.
fill_outboxd() {
	local left=$2 n set
	while [ "$left" -gt 0 ]; do
		n=$((left < 100000 ? left : 100000))
		set=$((n < 1000 ? n : 1000))
		sql "SELECT count(outbox.publish_many('on.$1', 'v1',
		    array_fill('${3:-$BODY}'::json, ARRAY[$set])))
		    FROM generate_series(1, $n / $set)" >/dev/null || exit 70
		left=$((left - n))
	done
}

empty_outboxd() {
	sql "TRUNCATE outbox.fact, outbox.fresh, outbox.exception, outbox.claim,
	    outbox.receipt, outbox.attempt" >/dev/null
}

IS_DRAINED="NOT EXISTS (SELECT FROM outbox.fresh)
    AND NOT EXISTS (SELECT FROM outbox.exception WHERE status <> 'paused')"

has_receipts() { # COUNT: the condition
	echo "(SELECT count(*) FROM (SELECT FROM outbox.receipt LIMIT $1) r) >= $1"
}

# outboxd_rate: deliveries a second from the first settle on.
outboxd_rate() {
	sql "SELECT round(count(*) FILTER (WHERE delivered_at > low)
	    / greatest(extract(epoch FROM max(delivered_at) - min(low)), 0.001))
	    FROM outbox.receipt, (SELECT min(delivered_at) AS low
		FROM outbox.receipt) m"
}

# daemons COUNT: starts them; they are in $DAEMONS.  Nobody asks whether they
# serve yet: that would be a psql every 50 ms in what is measured.
daemons() {
	local n=0
	while [ "$n" -lt "$1" ]; do
		n=$((n + 1))
		"$OUTBOXD" -c "$T/outboxd.yaml" >>"$T/daemon.log" 2>&1 &
		DAEMON=$!
		DAEMONS="$DAEMONS $DAEMON"
	done
}

has_ended() { # PID of a child
	local stat
	read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
	case $stat in
	*") Z "*) ;;
	*) return 1 ;;
	esac
}

stop_daemons() {
	local pid
	for pid in $DAEMONS; do
		stop_daemon TERM "$pid"
	done
}

# For handlers that do not end: the first signal waits for them, the second not.
stop_daemons_now() {
	local pid
	for pid in $DAEMONS; do
		kill -TERM "$pid"
		wait_for 10 sql_is t "SELECT coalesce(bool_and(stopping OR NOT alive), true)
		    FROM outbox.daemons WHERE pid = $pid"
		stop_daemon TERM "$pid"
	done
}

# until_true SECONDS CONDITION: asks four times a second, in one session; a psql
# for each look would take a good part of what is measured.  Gives up when the
# daemon has ended.
until_true() {
	local end=$(($(date +%s) + $1)) answer=
	mkfifo "$T/look.in" "$T/look.out"
	psql -XAtq <"$T/look.in" >"$T/look.out" 2>"$T/look.err" &
	local looker=$!
	exec 8>"$T/look.in" 7<"$T/look.out"
	while [ "$answer" != t ] && [ "$(date +%s)" -le "$end" ]; do
		[ -z "$answer" ] || sleep 0.25
		! has_ended "$DAEMON" || break
		echo "SELECT $2;" >&8
		read -r answer <&7 || break
	done
	exec 8>&- 7<&-
	wait "$looker"
	rm -f "$T/look.in" "$T/look.out"
	[ "$answer" = t ] || { say "not yet: $2 $(cat "$T/look.err")"; return 1; }
}

# run_outboxd CASE COUNT [DAEMONS [CONDITION]]: what is filled goes through
# DAEMONS (1), until nothing is left or CONDITION, in SQL; records rate and
# costs, for each delivery made.  With $GO daemons run already and have nothing
# they may do; that command gives it to them.
run_outboxd() {
	local case=$1 count=$2 cpu=0 rss=0 pid stop_ticks
	local hz daemons=${3:-1}
	hz=$(getconf CLK_TCK)
	if [ -n "${GO:-}" ]; then
		for pid in $DAEMONS; do
			cpu=$((cpu - $(ticks "$pid" also)))
		done
		meter "$T/before"
		"$GO"
	else
		meter "$T/before"
		daemons "$daemons"
	fi
	until_true "${PATIENCE:-600}" "${4:-$IS_DRAINED}" || {
		say "not all is delivered"
		tail -n 5 "$T/daemon.log" >&2
	}
	# what stopping costs, when much is held ahead, is no delivery's
	stop_ticks=$(server_ticks)
	for pid in $DAEMONS; do
		cpu=$((cpu + $(ticks "$pid" also)))
		rss=$(rss_kb "$pid")
	done
	"${STOP:-stop_daemons}"
	meter "$T/after"
	sed -i "1s/.*/$stop_ticks/" "$T/after"
	# more than was asked for, where some was left
	count=$(sql "SELECT greatest(count(*), 1) FROM outbox.receipt")
	record "$case" outboxd "per second" "$(outboxd_rate)"
	note "$case" outboxd "client CPU us each" \
	    "$(div $((cpu * 1000000 / hz)) "$count")"
	note "$case" outboxd "RSS kB" "$rss"
	[ -n "${UNMETERED:-}" ] || metered "$case" outboxd "$count"
}
