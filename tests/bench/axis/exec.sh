# exec handlers: one process for each delivery of a tiny program, with 4 and
# 16 at a time, beside the machine's bare vfork + exec + wait of the same.

axis_exec() {
	local at_once bare count=$((SIZE / 25))
	PROTOCOL=exec bundle true 1 /bin/true
	for ROUND in $(seq "$ROUNDS"); do
		for at_once in 4 16; do
			bare=$("$BUILD/bench/spawnrate" "$SECONDS_EACH" \
			    "$at_once" /bin/true)
			record "$at_once at a time" vfork "per second" "$bare"
			configure "$at_once" "plugins: {store: $STORE, max_processes: 64}"
			sed -i '0,/^plugins:/{/^plugins:/d}' "$T/outboxd.yaml"
			fill_outboxd true "$count"
			calm
			run_outboxd "$at_once at a time" "$count"
			note "$at_once at a time" outboxd "% of vfork" \
			    "$(div $(($(outboxd_rate) * 100)) "$bare")"
			empty_outboxd
		done
	done
}
