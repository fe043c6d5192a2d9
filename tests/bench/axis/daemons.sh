# 1, 2 and 4 daemons at one database: on one lane, and on ten.

axis_daemons() {
	local n name facts
	bundle one 1 "$BUILD/bench/noop"
	bundle ten 10 "$BUILD/bench/noop"
	for ROUND in $(seq "$ROUNDS"); do
		for name in one ten; do
			facts=$SIZE
			[ "$name" = one ] || facts=$((SIZE / 10))
			for n in 1 2 4; do
				configure 64
				fill_outboxd "$name" "$facts"
				calm
				run_outboxd "$n daemons, lanes: $name" "$SIZE" "$n"
				empty_outboxd
			done
		done
	done
}
