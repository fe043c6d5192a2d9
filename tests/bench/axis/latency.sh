# From COMMIT being sent to the handler's start, at 100 and 1000 single
# commits a second, which come at random times from 4 clients; what COMMIT
# itself took is beside it.  Each system at its quickest settings.

axis_latency() {
	local rate system
	setup_peers
	rm -f "$T/stamps"
	bundle stamp 1 "$BUILD/bench/noop" "$T/stamps"
	configure 64
	for ROUND in $(seq "$ROUNDS"); do
		for rate in ${RATES:-100 1000}; do
			latency_one outboxd
			for system in $READY; do
				command -v "stamp_$(echo "$system" | tr - _)" \
				    >/dev/null && latency_one "$system"
			done
		done
	done
}

latency_one() { # SYSTEM
	local worker= insert sent
	rm -f "$T/stamps"
	: >"$T/stamps"
	chmod 666 "$T/stamps"
	calm
	if [ "$1" = outboxd ]; then
		insert="SELECT outbox.publish('on.stamp', 'v1', \$1::json)"
		daemons 1
	else
		insert=$(of insert "$1")
		(of stamp "$1" "$T/stamps" >"$T/worker.log" 2>&1) &
		worker=$!
		[ "$1" != pgq ] || pgq_ticks
	fi
	# a first few, until they arrive: then it is up
	"$BUILD/bench/publisher" 20 2 1 "$insert" >/dev/null || say "$1 failed"
	wait_for 20 has_lines 1 "$T/stamps"
	sleep 1
	: >"$T/stamps"
	"$BUILD/bench/publisher" "$rate" "$SECONDS_EACH" 4 "$insert" \
	    >"$T/published" || say "$1 failed"
	sent=$(lines "$T/published")
	wait_for 30 has_lines "$sent" "$T/stamps" ||
	    say "$1: of $sent only $(lines "$T/stamps") came"
	if [ -n "$worker" ]; then
		kill $(cat /proc/[0-9]*/stat 2>/dev/null |
		    awk -v p="$worker" '$4 == p { print $1 }') "$worker" 2>/dev/null
		wait "$worker" 2>/dev/null
		of empty "$1" >/dev/null
	else
		stop_daemons
		empty_outboxd
	fi
	latency_of "$1"
}

# latency_of SYSTEM: out of $T/published and $T/stamps, in ms.
latency_of() {
	psql -XAtq >"$T/latency" <<-SQL
		CREATE TEMP TABLE p (id bigint, sent bigint, answered bigint);
		CREATE TEMP TABLE s (id bigint, at bigint);
		\\copy p FROM '$T/published'
		\\copy s FROM '$T/stamps'
		SELECT string_agg(round(v::numeric / 1000, 3)::text, ' ') FROM (
		    SELECT unnest(percentile_disc(ARRAY[0.5, 0.95, 0.99, 1.0])
			WITHIN GROUP (ORDER BY at - sent)
			|| percentile_disc(ARRAY[0.5, 0.99])
			WITHIN GROUP (ORDER BY answered - sent)
			|| percentile_disc(0.5) WITHIN GROUP (ORDER BY at - answered)) AS v
		      FROM p JOIN (SELECT id, min(at) AS at FROM s GROUP BY id) s USING (id)) l;
	SQL
	set -- "$1" $(cat "$T/latency")
	[ $# -eq 8 ] || { say "$1: no latency"; return; }
	record "$rate a second" "$1" "p50 ms" "$2"
	note "$rate a second" "$1" "p95 ms" "$3"
	record "$rate a second" "$1" "p99 ms" "$4"
	note "$rate a second" "$1" "worst ms" "$5"
	note "$rate a second" "$1" "COMMIT itself p50 ms" "$6"
	note "$rate a second" "$1" "COMMIT itself p99 ms" "$7"
	note "$rate a second" "$1" "from its answer on p50 ms" "$8"
}
