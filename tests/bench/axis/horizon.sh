# An old REPEATABLE READ transaction holds the horizon: half of $SIZE deliveries
# before it, 3 x $SIZE that are churned while it is held, half of $SIZE more
# (what counts), and as many after it has ended, twice.  Two peers beside, in
# the first round only, for they take minutes.

axis_horizon() {
	local system half=$((SIZE / 2))
	setup_peers
	bundle one 1 "$BUILD/bench/noop"
	configure 512
	for ROUND in $(seq "$ROUNDS"); do
		for system in outboxd $READY; do
			case $system in
			outboxd) ;;
			graphile-worker | bare-loop)
				[ "$ROUND" -eq 1 ] || continue
				;;
			*) continue ;;
			esac
			churn "$system" "before" "$half"
			hold_horizon
			churn "$system" "while 3 x $SIZE are churned" $((SIZE * 3))
			churn "$system" "held, after that" "$half"
			release_horizon
			churn "$system" "released" "$half"
			sleep "$SECONDS_EACH"
			churn "$system" "released, $SECONDS_EACH s later" "$half"
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
