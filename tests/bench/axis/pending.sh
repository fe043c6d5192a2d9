# Deliveries a second while much more is pending: the first three times $SIZE,
# a few seconds' work, of a backlog of as much (fresh), of ten times $SIZE, and
# of $PENDING, which is published once and of which each round takes its part:
# 10 million at full size, else none.  The memory of the daemon, too.
# graphile-worker, pg-boss and the bare loop beside, but for the last.

axis_pending() {
	local backlog system part=$((SIZE * 3))
	setup_peers
	bundle one 1 "$BUILD/bench/noop"
	configure 512
	for ROUND in $(seq "$ROUNDS"); do
		for backlog in "$part" $((SIZE * 10)); do
			fill_outboxd one "$backlog"
			calm
			first_of "$backlog"
			empty_outboxd
			for system in $READY; do
				case $system in
				graphile-worker | pg-boss | bare-loop) ;;
				*) continue ;;
				esac
				of fill "$system" 1 "$backlog"
				calm
				UNTIL=some run_peer "first $part of $backlog" \
				    "$system" 1 512 "$part"
				of empty "$system"
			done
		done
	done
	[ -n "${PENDING-}" ] || [ "$SIZE" -lt 100000 ] || PENDING=10000000
	[ "${PENDING:-0}" -gt 0 ] || return 0
	say "$PENDING are published"
	fill_outboxd one "$PENDING"
	calm
	for ROUND in $(seq "$ROUNDS"); do
		first_of "$PENDING"
		sql "TRUNCATE outbox.receipt" >/dev/null
	done
	empty_outboxd
}

first_of() { # BACKLOG
	run_outboxd "first $part of $1" "$part" 1 "$(has_receipts "$part")"
}
