# peers.sh - the systems that outboxd is measured beside; after lib.sh.
#
# For each: setup_X makes its tables, fill_X SUBSCRIBERS COUNT its jobs,
# drain_X SUBSCRIBERS AT_ONCE COUNT works them off and prints jobs a second,
# stamp_X FILE runs a worker that stamps, in the background, and insert_X is
# the statement that commits one job.  COUNT is of jobs, over all subscribers.

# Where npm's packages go; kept.
PEERS_DIR=$BUILD/bench/peers

# npm_peer NAME: what it needs is in $PEERS_DIR/NAME.
npm_peer() {
	local dir=$PEERS_DIR/$1
	command -v npm >/dev/null || { say "$1: npm is missing"; return 1; }
	mkdir -p "$dir"
	cp "$BENCH/peers/$1"/* "$dir/"
	[ -d "$dir/node_modules/$1" ] ||
	    (cd "$dir" && npm install --no-audit --no-fund --no-package-lock \
		>npm.log 2>&1) || { say "$1: see $dir/npm.log"; return 1; }
}

debian_peer() { # PROGRAM PACKAGE...
	command -v "$1" >/dev/null && return
	shift
	if [ "$(id -u)" -eq 0 ]; then
		DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
		    --no-install-recommends "$@" >"$T/apt.log" 2>&1
	else
		sudo -n env DEBIAN_FRONTEND=noninteractive apt-get install -y \
		    -q --no-install-recommends "$@" >"$T/apt.log" 2>&1
	fi || { say "$*: cannot be installed"; return 1; }
}

# jobs SQL SUBSCRIBERS COUNT: SQL in sets of 1000 for each subscriber's queue;
# in it :set is how many, :queue the name of the queue.
jobs() {
	local n=1 queue each=$(($3 / $2))
	local set=$((each < 1000 ? each : 1000))
	while [ "$n" -le "$2" ]; do
		queue=$(nth "$n")
		echo "$1" | sed "s/:set/$set/g; s/:queue/$queue/g;
		    s/:many/$((each / set))/g" >"$T/jobs.sql"
		psql -Xq -v ON_ERROR_STOP=1 -f "$T/jobs.sql" >/dev/null || exit 70
		n=$((n + 1))
	done
}

# ---- graphile-worker ----

graphile() {
	node "$PEERS_DIR/graphile-worker/worker.js" "$@"
}
setup_graphile_worker() {
	npm_peer graphile-worker && graphile setup
}
fill_graphile_worker() {
	jobs "SELECT count((SELECT count(*) FROM graphile_worker.add_jobs(
	    array_fill(row(':queue', '$BODY'::json, NULL, NULL, NULL, NULL,
		NULL, NULL)::graphile_worker.job_spec, ARRAY[:set + 0 * n]))))
	    FROM generate_series(1, :many) n" "$@"
}
empty_graphile_worker() {
	sql "TRUNCATE graphile_worker._private_jobs"
}
drain_graphile_worker() {
	graphile drain "$2" "$3"
}
stamp_graphile_worker() {
	exec node "$PEERS_DIR/graphile-worker/worker.js" stamp 8 "$1"
}
insert_graphile_worker() {
	echo "SELECT graphile_worker.add_job('ack', \$1::json)"
}

# ---- pg-boss ----

boss() {
	node "$PEERS_DIR/pg-boss/worker.js" "$@"
}
setup_pg_boss() {
	npm_peer pg-boss && boss setup
}
fill_pg_boss() {
	jobs "INSERT INTO pgboss.job (name, data)
	    SELECT ':queue', '$BODY' FROM generate_series(1, :set * :many)" "$@"
}
empty_pg_boss() {
	sql "TRUNCATE pgboss.job"
}
drain_pg_boss() {
	boss drain "$2" "$3" "$1"
}
stamp_pg_boss() {
	exec node "$PEERS_DIR/pg-boss/worker.js" stamp 100 "$1"
}
insert_pg_boss() {
	echo "INSERT INTO pgboss.job (name, data) VALUES ('ack', \$1::jsonb)"
}

# ---- pgq ----

# Its ticker, ten times a second; it runs as whoever runs the server.
pgq_ticks() {
	[ -z "${PGQD:-}" ] || return 0
	cat >"$SYSTEM_CLUSTER/pg/pgqd.ini" <<-INI
		[pgqd]
		pidfile = $SYSTEM_CLUSTER/pg/pgqd.pid
		base_connstr = host=$PGHOST port=$PGPORT user=$PGUSER
		initial_database = postgres
		database_list = $PGDATABASE
		ticker_period = 0.1
		check_period = 1
	INI
	chmod 644 "$SYSTEM_CLUSTER/pg/pgqd.ini"
	as_server pgqd "$SYSTEM_CLUSTER/pg/pgqd.ini" >"$T/pgqd.log" 2>&1 &
	PGQD=$!
}
pgq_rests() {
	[ -n "${PGQD:-}" ] || return 0
	kill "$(cat "$SYSTEM_CLUSTER/pg/pgqd.pid")" 2>/dev/null
	wait "$PGQD" 2>/dev/null
	PGQD=
}
setup_pgq() {
	debian_peer pgqd pgqd postgresql-15-pgq3 || return
	sql "CREATE EXTENSION IF NOT EXISTS pgq" 2>"$T/err" >/dev/null ||
	    { say "pgq: $(cat "$T/err")"; return 1; }
}
fill_pgq() {
	local n=0
	pgq_ticks
	sql "SELECT pgq.create_queue('rival'),
	    pgq.set_queue_config('rival', 'ticker_max_lag', '0.1')" >/dev/null
	while [ "$n" -lt "$1" ]; do
		n=$((n + 1))
		sql "SELECT pgq.register_consumer('rival', 'c$n')" >/dev/null
	done
	n=0
	while [ "$n" -lt $(($2 / $1)) ]; do
		n=$((n + 1000))
		sql "SELECT count(pgq.insert_event('rival', 'ack', '$BODY'))
		    FROM generate_series(1, 1000)" >/dev/null
	done
}
empty_pgq() {
	pgq_rests
	sql "SELECT pgq.drop_queue(queue_name, true)
	    FROM pgq.get_queue_info('rival')" >/dev/null 2>&1
}
drain_pgq() {
	"$BUILD/bench/rival" "pgq$1" "$2" "$3"
}
stamp_pgq() {
	exec "$BUILD/bench/rival" pgq1 1 0 "$1"
}
insert_pgq() {
	echo "SELECT pgq.insert_event('rival', 'ack', \$1)"
}

# ---- in plain SQL ----

setup_skip_locked() {
	sql_is t "SELECT EXISTS (SELECT FROM pg_namespace
	    WHERE nspname = 'rival')" || psql -Xq -f "$BENCH/peers/rival.sql"
}
fill_skip_locked() {
	sql "INSERT INTO rival.job (body) SELECT '$BODY'
	    FROM generate_series(1, $2)"
}
empty_skip_locked() {
	sql "TRUNCATE rival.job"
}
drain_skip_locked() {
	"$BUILD/bench/rival" skip-locked "$2" "$3"
}
stamp_skip_locked() {
	exec "$BUILD/bench/rival" skip-locked 8 0 "$1"
}
insert_skip_locked() {
	echo "WITH j AS (INSERT INTO rival.job (body) VALUES (\$1::json)
	    RETURNING job_id) SELECT pg_notify('rival', '') FROM j"
}

setup_bare_loop() {
	setup_skip_locked
}
fill_bare_loop() {
	sql "INSERT INTO rival.message (body) SELECT '$BODY'
	    FROM generate_series(1, $2)"
}
empty_bare_loop() {
	sql "TRUNCATE rival.message"
}
drain_bare_loop() {
	"$BUILD/bench/rival" bare-loop "$2" "$3"
}

# ---- any of them ----

# of VERB SYSTEM [ARGUMENT...]
of() {
	local fn
	fn=$1_$(echo "$2" | tr - _)
	shift 2
	"$fn" "$@"
}

# setup_peers: of $PEERS those that can be had; they are in $READY.
setup_peers() {
	local peer
	[ -z "${READY+set}" ] || return 0
	READY=
	for peer in $PEERS; do
		say "setting up $peer"
		if of setup "$peer"; then
			READY="$READY $peer"
		else
			say "$peer is left out"
		fi
	done
}

# run_peer CASE SYSTEM SUBSCRIBERS AT_ONCE COUNT: drains what is filled, and
# records rate and costs.
run_peer() {
	local cpu
	meter "$T/before"
	cpu=$(ended_ticks)
	of drain "$2" "$3" "$4" "$5" >"$T/rate" || say "$2 failed"
	cpu=$(($(ended_ticks) - cpu))
	meter "$T/after"
	record "$1" "$2" "per second" "$(cat "$T/rate")"
	note "$1" "$2" "client CPU us each" \
	    "$(div $((cpu * 1000000 / $(getconf CLK_TCK))) "$5")"
	[ -n "${UNMETERED:-}" ] || metered "$1" "$2" "$5"
}
