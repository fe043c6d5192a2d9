# What dispatch.head_start gives: no-op deliveries through one worker, with 1,
# 8, 64 and 512 at once, without and with it in turn.

axis_ahead() {
	local at_once count
	bundle one 1 "$BUILD/bench/noop"
	for at_once in ${IN_FLIGHT:-1 8 64 512}; do
		count=$SIZE
		[ "$at_once" -gt 1 ] || count=$((SIZE / 10)) # slow without
		for ROUND in $(seq "$ROUNDS"); do
			for HEAD_START in 0ms 250ms; do
				configure "$at_once"
				fill_outboxd one "$count"
				calm
				run_outboxd "$at_once at once, $HEAD_START ahead" "$count"
				empty_outboxd
			done
		done
	done
	HEAD_START=
}
