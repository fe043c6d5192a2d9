# Facts committed a second, of 200 bytes, to 1 subscriber: one a transaction
# by 1 and 8 clients, and in sets of 1000; beside it a bare INSERT of the same
# rows into two tables of the same columns and indexes, and what peers offer
# for one.  No worker runs.

axis_publish() {
	local system
	setup_peers
	bundle one 1 "$BUILD/bench/noop"
	sql "CREATE SCHEMA IF NOT EXISTS bare;
	    CREATE TABLE IF NOT EXISTS bare.fact (LIKE outbox.fact INCLUDING ALL);
	    CREATE TABLE IF NOT EXISTS bare.fresh (LIKE outbox.fresh INCLUDING ALL)"
	for ROUND in $(seq "$ROUNDS"); do
		for clients in 1 8; do
			publish_case outboxd "one by one, $clients clients" 1 "$clients" \
			    "SELECT outbox.publish('on.one', 'v1', '$BODY')"
			publish_case bare-insert "one by one, $clients clients" 1 \
			    "$clients" "$(bare_insert 1)"
			for system in $READY; do
				command -v "insert_$(echo "$system" | tr - _)" \
				    >/dev/null || continue
				publish_case "$system" "one by one, $clients clients" 1 \
				    "$clients" "$(of insert "$system" |
				    sed "s/\$1/'$(echo "$BODY" |
					sed 's/"/\\"/g; s/\\"/"/g')'/g")"
			done
		done
		publish_case outboxd "sets of 1000" 1000 1 \
		    "SELECT count(*) FROM unnest(outbox.publish_many('on.one', 'v1',
		    array_fill('$BODY'::json, ARRAY[1000])))"
		publish_case bare-insert "sets of 1000" 1000 1 "$(bare_insert 1000)"
	done
}

# bare_insert COUNT: what publish writes, and nothing of what it looks at.
bare_insert() {
	echo "WITH f AS (INSERT INTO bare.fact (event_id, contract_key, graph_id,
	    authority_seq, frame_bytes, published_at, occurred_at, workspace, body)
	    SELECT outbox._uuid7(), 1, 1, 1, 2504, now(), now(), 'default',
	    '$BODY'::json FROM generate_series(1, $1) RETURNING fact_id)
	    INSERT INTO bare.fresh (target_id, fact_id) SELECT 1, fact_id FROM f"
}

# publish_case SYSTEM CASE SET CLIENTS STATEMENT
publish_case() {
	local tps seconds=$(((SECONDS_EACH + 1) / 2))
	[ "$1" != pgq ] || fill_pgq 1 0
	echo "$5" | tr '\n' ' ' >"$T/script.sql"
	echo ';' >>"$T/script.sql"
	calm
	meter "$T/before"
	tps=$(pgbench -n -M prepared -f "$T/script.sql" -c "$4" -j 2 \
	    -T "$seconds" 2>"$T/err" |
	    sed -n 's/^tps = \([0-9.]*\).*/\1/p')
	meter "$T/after"
	[ -n "$tps" ] || { say "$(cat "$T/err")"; return; }
	record "$2" "$1" "facts per second" "$(awk "BEGIN { printf \"%.0f\", $tps * $3 }")"
	metered "$2" "$1" "$(awk "BEGIN { print int($tps * $3 * $seconds) + 1 }")"
	empty_outboxd
	sql "TRUNCATE bare.fact, bare.fresh"
	case " $READY " in *" $1 "*) of empty "$1" >/dev/null ;; esac
}
