# From COMMIT being sent to the handler's start, at 100 and 1000 single
# commits a second, which come at random times from 4 clients; what COMMIT
# itself took is beside it.  Each system at its quickest settings; outboxd at
# 100 a second with an exec handler, too.

axis_latency() {
	WORKER=
	local rate system
	setup_peers
	rm -f "$T/stamps"
	bundle stamp 1 "$BUILD/bench/noop" "$T/stamps"
	PROTOCOL=exec bundle execstamp 1 "$BUILD/bench/noop" "$T/stamps"
	configure 64
	for ROUND in $(seq "$ROUNDS"); do
		for rate in ${RATES:-100 1000}; do
			latency_one outboxd
			[ "$rate" -ne 100 ] || latency_one outboxd-exec
			for system in $READY; do
				command -v "stamp_$(echo "$system" | tr - _)" \
				    >/dev/null && latency_one "$system"
			done
		done
	done
}

latency_one() { # SYSTEM
	local insert sent name= seconds=$SECONDS_EACH
	[ "$rate" -lt 1000 ] || seconds=$(((SECONDS_EACH + 1) / 2))
	rm -f "$T/stamps"
	: >"$T/stamps"
	chmod 666 "$T/stamps"
	calm
	case $1 in
	outboxd) name=stamp ;;
	outboxd-exec) name=execstamp ;;
	esac
	if [ -n "$name" ]; then
		insert="SELECT outbox.publish('on.$name', 'v1', \$1::json)"
		daemons 1
	else
		insert=$(of insert "$1")
		[ "$1" != pgq ] || fill_pgq 1 0
		of stamp "$1" "$T/stamps" >"$T/worker.log" 2>&1 &
		WORKER=$!
	fi
	# a first few, until they arrive: then it is up
	"$BUILD/bench/publisher" 20 2 1 "$insert" >/dev/null || say "$1 failed"
	wait_for 20 has_lines 1 "$T/stamps"
	sleep 1
	: >"$T/stamps"
	"$BUILD/bench/publisher" "$rate" "$seconds" 4 "$insert" \
	    >"$T/published" || say "$1 failed"
	sent=$(lines "$T/published")
	wait_for 30 has_lines "$sent" "$T/stamps" ||
	    say "$1: of $sent only $(lines "$T/stamps") came"
	if [ -n "$WORKER" ]; then
		kill "$WORKER"
		wait "$WORKER" 2>/dev/null
		WORKER=
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
