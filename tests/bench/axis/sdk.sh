# Through one worker process of each SDK: deliveries of 200 bytes a second with
# 1, 16 and 64 in flight, for C with 512 and 2000, too.  What a process does
# without a database is told by bench-calls.

axis_sdk() {
	local at_once language count
	bundle c 1 "$BUILD/bench/noop"
	! command -v python3 >/dev/null ||
	    ALONG=$ROOT/sdk/python/outbox_plugin.py \
		bundle python 1 "$BENCH/noop/noop.py"
	! command -v node >/dev/null ||
	    ALONG=$ROOT/sdk/node/outbox-plugin.js \
		bundle node 1 "$BENCH/noop/noop.js"
	for ROUND in $(seq "$ROUNDS"); do
		for at_once in 1 16 64 512 2000; do
			for language in c python node; do
				case " $PREPARED " in
				*" $language "*) ;;
				*) continue ;;
				esac
				[ "$language" = c ] || [ "$at_once" -le 64 ] ||
				    continue
				case $at_once in
				1) count=$((SIZE / 20)) ;;
				16) count=$((SIZE / 5)) ;;
				*) count=$((SIZE / 2)) ;;
				esac
				configure "$at_once"
				fill_outboxd "$language" "$count"
				calm
				UNMETERED=1 run_outboxd \
				    "$language, $at_once in flight" "$count"
				empty_outboxd
			done
		done
	done
}
