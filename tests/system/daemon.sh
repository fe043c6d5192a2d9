# daemon.sh - what the scripts about the daemon share; after lib.sh and begin.

PLUGINS=$ROOT/tests/plugins

# setup [YAML...]: schema, contract and config $T/outboxd.yaml; $RECORD is
# where the puppet writes down its runs.  As root, programs in $T must be
# reachable by handlers, which run as we do.
setup() {
	RECORD=$T/record
	: >"$RECORD"
	daemon_config "$T/outboxd.yaml" "$@"
	ctl schema install >/dev/null 2>&1 && ctl contract add fact.made@v1 >/dev/null
}

# install NAME...: bundles of tests/plugins, active and granted.
install() {
	local name
	for name; do
		ctl -c "$T/outboxd.yaml" plugin install "$PLUGINS/$name" \
		    >/dev/null &&
		    ctl -c "$T/outboxd.yaml" plugin activate "test.$name@1" \
			--grant-all >/dev/null || return 1
	done
}

# publish [BODY]: the event id.
publish() {
	local body
	body=$(printf %s "${1:-null}" | tr '\n' ' ')
	sql "SELECT outbox.publish('fact.made', 'v1', \$body\$$body\$body\$)"
}

# make_do COMMANDS: an event for the puppet.
make_do() {
	publish "{\"do\": \"$1\"}"
}

# make_many N COMMANDS: in one transaction.
make_many() {
	sql "SELECT count(outbox.publish('fact.made', 'v1',
	    json_build_object('do', '$2'))) FROM generate_series(1, $1)" \
	    >/dev/null
}

# make_say RESULT [STATUS]: it writes RESULT on descriptor 3 and exits so.
make_say() {
	publish "{\"do\": \"exit ${2:-0}\",
	    \"say\": \"$(printf %s "$1" | base64 -w 0)\"}" | tr -d '\n'
}

# field EVENT COLUMN [SUBSCRIBER]
field() {
	sql "SELECT $2 FROM outbox.deliveries WHERE event_id = '$1'${3:+
	    AND subscriber_id = '$3'}"
}

# waits EVENT CONDITION [SECONDS]: 1 when time is up.
waits() {
	wait_for "${3:-10}" sql_is t "SELECT bool_and($2) FROM outbox.deliveries
	    WHERE event_id = '$1'"
}

# becomes SENTENCE EVENT CONDITION [SECONDS]
becomes() {
	if waits "$2" "$3" "${4:-10}"; then
		ok "$1"
	else
		not_ok "$1" "wanted: $3" "$(sql "SELECT row_to_json(d) FROM
		    outbox.deliveries d WHERE event_id = '$2'")" \
		    "$(tail -n 5 "$T/daemon.log")"
	fi
}

# is_settled: nothing is pending or claimed any more.
is_settled() {
	sql_is 0 "SELECT count(*) FROM outbox.deliveries
	    WHERE status IN ('pending', 'claimed')"
}

# outcomes EVENT: of all its attempts, in order.
outcomes() {
	sql "SELECT string_agg(outcome, ' ' ORDER BY attempt, ended_at)
	    FROM outbox.attempts WHERE event_id = '$1'
	    AND outcome <> 'not_started'" # as what a dead process left, by chance
}

# logged PATTERN: how often, in the daemon's log.
logged() {
	grep -cE "$1" "$T/daemon.log"
}
