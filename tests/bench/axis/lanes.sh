# One lane of quick deliveries beside $LANES (999) useless ones, 64 to a plugin:
# none at all, paused, full (handlers that never answer), or owed only
# in the far future.  What the server spends on each delivery should not move.
# The daemon has met the others, and what it claims of the full ones, when the
# quick lane is resumed.  Also: ten lanes at small batches, the work spread
# evenly.

axis_lanes() {
	local n=${LANES:-999} state
	bundle one 1 "$BUILD/bench/noop"
	bundle ten 10 "$BUILD/bench/noop"
	for ROUND in $(seq "$ROUNDS"); do
		for state in none paused full future; do
			[ "$state" != none ] || each_useless "$n" without_one
			[ "$state" = none ] || each_useless "$n" with_one
			lanes_case "$state" "$n"
		done
		each_useless "$n" without_one
		configure 8
		fill_outboxd ten $((SIZE / 10))
		calm
		run_outboxd "10 lanes, 8 in flight each" "$SIZE"
		empty_outboxd
	done
}

# each_useless COUNT COMMAND...: for each plugin that COUNT handlers need.
each_useless() {
	local left=$1 plugin=1
	shift
	while [ "$left" -gt 0 ]; do
		HANDLERS=$((left < 64 ? left : 64))
		"$@" "useless$plugin"
		left=$((left - HANDLERS))
		plugin=$((plugin + 1))
	done
}

is_active() {
	sql_is t "SELECT EXISTS (SELECT FROM outbox.installation
	    WHERE plugin_id = 'bench.$1' AND state = 'active')"
}

with_one() {
	DEADLINE=30m bundle "$1" "$HANDLERS" "$BUILD/bench/noop" --never
	is_active "$1" ||
	    ctl plugin activate "bench.$1@1" --grant-all >/dev/null
}

without_one() {
	! is_active "$1" || without "$1"
}

fill_one() {
	fill_outboxd "$1" 2
}

later_one() {
	sql "SELECT outbox.publish('on.$1', 'v1', '{}',
	    available_at => now() + interval '1 day')" >/dev/null
}

# useless_are VERB: pause or resume all of them.
useless_are() {
	case $1 in
	pause) sql "SELECT count(outbox.subscriber_pause(subscriber_id, 'bench'))
	    FROM outbox.subscriber WHERE subscriber_id LIKE 'bench.useless%'" ;;
	*) sql "SELECT count(outbox.subscriber_resume(subscriber_id))
	    FROM outbox.subscriber WHERE subscriber_id LIKE 'bench.useless%'" ;;
	esac >/dev/null
}

start_quick() {
	sql "SELECT outbox.subscriber_resume('bench.one.ack')" >/dev/null
}

HELD="(SELECT coalesce(sum(open), 0) FROM outbox.claim)"

lanes_case() { # STATE COUNT
	local case="$2 others: $1" stands=true
	[ "$1" != none ] || case="no others"
	configure 64 'subscribers:'
	case $1 in
	full)
		# one call each
		sql "SELECT '  ' || subscriber_id || ': {concurrency: 1}'
		    FROM outbox.subscriber
		    WHERE subscriber_id LIKE 'bench.useless%'" >>"$T/outboxd.yaml"
		each_useless "$2" fill_one
		stands="$HELD >= $2"
		;;
	paused)
		each_useless "$2" fill_one
		useless_are pause
		;;
	future) each_useless "$2" later_one ;;
	esac
	[ "$1" = full ] || sed -i '/^subscribers:$/d' "$T/outboxd.yaml"
	sql "SELECT outbox.subscriber_pause('bench.one.ack', 'bench')" >/dev/null
	fill_outboxd one "$SIZE"
	calm
	daemons 1
	until_true 60 "EXISTS (SELECT FROM outbox.daemons WHERE alive) AND $stands"
	sleep 3
	GO=start_quick STOP=stop_daemons_now run_outboxd "$case" "$SIZE" 1 \
	    "$(has_receipts "$SIZE")"
	[ "$1" != paused ] || useless_are resume
	empty_outboxd
}
