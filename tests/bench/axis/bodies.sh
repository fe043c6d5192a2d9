# Bodies of 200 bytes, 10 kB and 1 MB: deliveries a second, what the server
# spends, and the daemon's memory, which the budget bounds.

axis_bodies() {
	local bytes count
	bundle one 1 "$BUILD/bench/noop"
	for ROUND in $(seq "$ROUNDS"); do
		for bytes in 200 10000 1000000; do
			case $bytes in
			200) count=$SIZE ;;
			10000) count=$((SIZE / 10)) ;;
			*) count=$((SIZE > 50000 ? SIZE / 500 : 100)) ;;
			esac
			configure 64
			# random, so that it is not compressed away
			sql "SELECT count(outbox.publish('on.one', 'v1', ('{\"id\":1,'
			    || '\"text\":\"' || left(t.text, $bytes - 19) || '\"}')::json))
			    FROM (SELECT string_agg(md5(random()::text), '') AS text
				FROM generate_series(1, $bytes / 32 + 1)) t,
			    generate_series(1, $count)" >/dev/null
			calm
			run_outboxd "$bytes bytes" "$count"
			note "$bytes bytes" outboxd "MB per second" \
			    "$(div $(($(outboxd_rate) * bytes)) 1000000)"
			empty_outboxd
		done
	done
}
