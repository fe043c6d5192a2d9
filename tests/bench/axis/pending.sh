# Deliveries a second while much more is pending: the first $SIZE of a backlog
# of $SIZE (fresh), of a million, and of $PENDING (such as 10000000) if that is
# given.  The memory of the daemon, too.  graphile-worker and pg-boss beside.

axis_pending() {
	local backlog system
	setup_peers
	bundle one 1 "$BUILD/bench/noop"
	configure 512
	for ROUND in $(seq "$ROUNDS"); do
		for backlog in "$SIZE" $((SIZE * 10)) ${PENDING:-}; do
			say "$backlog are published"
			fill_outboxd one "$backlog"
			calm
			run_outboxd "first $SIZE of $backlog" "$SIZE" 1 \
			    "$(has_receipts "$SIZE")"
			empty_outboxd
			for system in $READY; do
				case $system in
				graphile-worker | pg-boss | bare-loop) ;;
				*) continue ;;
				esac
				[ "$backlog" -le $((SIZE * 10)) ] || continue
				of fill "$system" 1 "$backlog"
				calm
				UNTIL=some run_peer "first $SIZE of $backlog" \
				    "$system" 1 512 "$SIZE"
				of empty "$system"
			done
		done
	done
}
