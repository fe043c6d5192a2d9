# What the wake-up costs writers: commits a second of 200 clients that publish
# one fact each, with no dispatcher, with one that always sleeps (a session
# that holds its key and listens: each publish notifies), with a daemon whose
# lane is full and stays so, and with one that delivers meanwhile, which takes
# processors from the server, too.

axis_wake() {
	local case
	DEADLINE=30m bundle stuck 1 "$BUILD/bench/noop" --never
	bundle one 1 "$BUILD/bench/noop"
	for ROUND in $(seq "$ROUNDS"); do
		configure 4
		wake_case "no dispatcher" one
		psql -XAtq >/dev/null 2>&1 <<-SQL &
			SELECT outbox.sleep_begin(gen_random_uuid());
			LISTEN outbox_wake;
			SELECT pg_sleep(3600);
		SQL
		wait_for 10 sql_is t "SELECT EXISTS (SELECT FROM pg_stat_activity
		    WHERE query LIKE '%pg_sleep%' AND pid <> pg_backend_pid())"
		wake_case "always asleep" one
		sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		    WHERE query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()" \
		    >/dev/null
		wait $! 2>/dev/null
		without one
		full_lane "daemon with a full lane"
		ctl plugin activate bench.one@1 --grant-all >/dev/null
		full_lane "daemon with a full lane and an empty one"
		daemons 1
		wake_case "daemon that delivers" one
		stop_daemons
		empty_outboxd
	done
}

full_lane() { # CASE
	daemons 1
	fill_outboxd stuck 100
	wait_for 20 sql_is t "SELECT EXISTS (SELECT FROM outbox.claim)"
	wake_case "$1" stuck
	stop_daemons_now
}

# wake_case CASE NAME
wake_case() {
	local tps
	# 200 sessions, and the first call of each, take seconds to begin
	local warm=${WARM:-12}
	echo "SELECT outbox.publish('on.$2', 'v1', '$BODY');" >"$T/script.sql"
	pgbench -n -M prepared -f "$T/script.sql" -c "${WRITERS:-200}" -j 2 \
	    -P 1 -T $((warm + SECONDS_EACH)) >"$T/pgbench.out" 2>&1
	tps=$(awk -v warm="$warm" '/^progress: / && $2 > warm { t += $4; n++ }
		END { if (n > 0) printf "%.0f\n", t / n }' "$T/pgbench.out")
	[ -n "$tps" ] || { say "$(tail -n 3 "$T/pgbench.out")"; return; }
	record "${WRITERS:-200} writers" "$1" "commits per second" "$tps"
	[ "$1" = "daemon that delivers" ] || empty_outboxd
}
