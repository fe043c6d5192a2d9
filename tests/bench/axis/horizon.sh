# An old REPEATABLE READ transaction holds the horizon: $SIZE deliveries
# before it, 3 x $SIZE that are churned while it is held, $SIZE more (what
# counts), and $SIZE at a time after it has ended until the rate is back.

axis_horizon() {
	local fresh now began system n
	setup_peers
	bundle one 1 "$BUILD/bench/noop"
	configure 512
	for ROUND in $(seq "$ROUNDS"); do
		for system in outboxd $READY; do
			case $system in
			outboxd | graphile-worker | bare-loop) ;;
			*) continue ;;
			esac
			churn "$system" "before" "$SIZE"
			hold_horizon
			churn "$system" "while 3 x $SIZE are churned" $((SIZE * 3))
			churn "$system" "held, after that" "$SIZE"
			release_horizon
			churn "$system" "released" "$SIZE"
			sleep "$SECONDS_EACH"
			churn "$system" "released, $SECONDS_EACH s later" "$SIZE"
			case $system in
			outboxd) empty_outboxd ;;
			*) of empty "$system" ;;
			esac
		done
	done
}

# churn SYSTEM CASE COUNT: without VACUUM in between, as it happens.
churn() {
	if [ "$1" = outboxd ]; then
		sql "TRUNCATE outbox.receipt" >/dev/null # has no part in it
		fill_outboxd one "$3"
		run_outboxd "$2" "$3"
	else
		of fill "$1" 1 "$3"
		run_peer "$2" "$1" 1 512 "$3"
	fi
}

hold_horizon() {
	mkfifo "$T/old"
	psql -XAtq <"$T/old" >"$T/old.out" 2>&1 &
	OLD=$!
	exec 9>"$T/old"
	echo "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class;" >&9
	wait_for 10 has_lines 1 "$T/old.out"
}

release_horizon() {
	echo "COMMIT;" >&9
	exec 9>&-
	wait "$OLD"
	rm -f "$T/old" "$T/old.out"
}
