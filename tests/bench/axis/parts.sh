# Where the server's part of a delivery goes: $SIZE are published in sets of
# 1000 and drained with 512 in flight, and pg_stat_statements tells what each
# call of the schema took.  The rate is a little less than that of drain, for
# the server keeps count.  Beside it what the machine does at best: writes to
# disk, and round trips over bare pipes and through a worker, no database.

axis_parts() {
	local part time wal calls
	server_stop fast
	SERVER_OPTIONS="-c shared_preload_libraries=pg_stat_statements \
	    -c pg_stat_statements.track_planning=on"
	server_start || exit 70
	sql "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"
	bundle one 1 "$BUILD/bench/noop"
	configure 512
	for ROUND in $(seq "$ROUNDS"); do
		sql "SELECT pg_stat_statements_reset()" >/dev/null
		fill_outboxd one "$SIZE"
		calm
		run_outboxd "all parts" "$SIZE"
		sql "SELECT part, round((sum(total_exec_time + total_plan_time)
			* 1000 / $SIZE)::numeric, 2),
		    round(sum(wal_bytes) / $SIZE, 1), sum(calls)
		    FROM (SELECT *, coalesce(substring(query FROM
			    'outbox\\.(publish|claim|settle|renew|heartbeat|sleep)'),
			'other') AS part FROM pg_stat_statements) s
		    WHERE query !~ 'TRUNCATE|VACUUM|CHECKPOINT'
		    GROUP BY part" | tr '|' '\t' >"$T/parts"
		while read -r part time wal calls; do
			record "$part" outboxd "server us each" "$time"
			note "$part" outboxd "WAL bytes each" "$wal"
			note "$part" outboxd "calls" "$calls"
		done <"$T/parts"
		empty_outboxd
		machine_does
	done
	server_stop fast
	SERVER_OPTIONS=
	server_start || exit 70
}

machine_does() {
	local n
	record "written to disk" machine "per second" \
	    "$("$PG_BIN/pg_test_fsync" -s 1 -f "$SYSTEM_CLUSTER/fsync" |
		awk '$1 == "fdatasync" { print int($2); exit }')"
	for n in 1 64 512; do
		set -- $("$BUILD/bench/calls" 2 "$n" "$BUILD/bench/noop" |
		    sed 's/.*flight: *\([0-9]*\) .*pipes *\([0-9]*\):.*/\1 \2/')
		record "$n calls in flight" worker "per second" "$1"
		record "$n calls in flight" bare-pipes "per second" "$2"
	done
}
