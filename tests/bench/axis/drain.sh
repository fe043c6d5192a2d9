# $SIZE no-op deliveries of 200 bytes that wait when the worker starts, to 1
# subscriber and spread over 5, with 8 and 512 in flight for each; each system
# in turn, in every round.  What the server spends on each is recorded, too.

axis_drain() {
	local subs at_once system
	setup_peers
	bundle one 1 "$BUILD/bench/noop"
	bundle five 5 "$BUILD/bench/noop"
	for ROUND in $(seq "$ROUNDS"); do
		for subs in 1 5; do
			for at_once in ${IN_FLIGHT:-8 512}; do
				drain_one outboxd
				for system in $READY; do
					drain_one "$system"
				done
			done
		done
	done
}

drain_one() { # SYSTEM
	local case="$subs subscribers, $at_once in flight"
	local name=one count
	[ "$subs" -eq 1 ] || name=five
	if [ "$1" = outboxd ]; then
		configure "$at_once"
		fill_outboxd "$name" $((SIZE / subs))
		calm
		run_outboxd "$case" "$SIZE"
		empty_outboxd
		return
	fi
	# some are so slow with few in flight that a tenth is long enough
	case $1:$at_once in
	pg-boss:? | skip-locked:?) count=$((SIZE / 10)) ;;
	*) count=$SIZE ;;
	esac
	of fill "$1" "$subs" "$count"
	calm
	run_peer "$case" "$1" "$subs" "$at_once" "$count"
	of empty "$1"
}
