# worker-lib.sh - what the scripts about workers share; after lib.sh, begin
# and daemon.sh.

USUAL='deadline: 5s
    concurrency: 8
    retry: {base: 100ms, cap: 300ms, max_attempts: 3, max_crashes: 3}'

# worker NAME [LINE...]: tests/plugins/worker as the plugin test.NAME of
# version ${VERSION:-1}, installed and active, with handler h for the contract
# on.NAME@v1.  Lines are added to the manifest's root.  $HANDLER replaces the
# numbers of the handler, $HANDLERS all handlers.
worker() {
	local name=$1 version=${VERSION:-1} dir
	dir=$T/bundle/$1-${VERSION:-1}
	shift
	mkdir -p "$dir/bin"
	sed "s/^VERSION = .*/VERSION = \"$version\"/" \
	    "$PLUGINS/worker/bin/run" >"$dir/bin/run"
	chmod 755 "$dir/bin/run"
	{
		printf 'plugin: test.%s\nversion: "%s"\nprotocol: worker\n' \
		    "$name" "$version"
		echo 'command: [bin/run]'
		[ $# -eq 0 ] || printf '%s\n' "$@"
		echo 'handlers:'
		if [ -n "${HANDLERS:-}" ]; then
			echo "$HANDLERS"
		else
			echo '  h:'
			echo '    version: "1"'
			echo "    subscribes: [{contract: on.$name@v1}]"
			echo "    ${HANDLER:-$USUAL}"
		fi
	} >"$dir/plugin.yaml"
	sql "SELECT outbox.contract_add('on.$name', 'v1')" >/dev/null
	ctl -c "$T/outboxd.yaml" plugin install "$dir" >/dev/null &&
	    ctl -c "$T/outboxd.yaml" plugin activate "test.$name@$version" \
		--grant-all >/dev/null
}

# tell NAME COMMANDS: publishes an event for it; the event's id.
tell() {
	sql "SELECT outbox.publish('on.$1', 'v1', json_build_object('do', '$2'))"
}

# tell_many N NAME COMMANDS: in one transaction.
tell_many() {
	sql "SELECT count(outbox.publish('on.$2', 'v1',
	    json_build_object('do', '$3'))) FROM generate_series(1, $1)" \
	    >/dev/null
}

# said PATTERN: how many lines of $RECORD match.
said() {
	grep -cE "$1" "$RECORD"
}

# says N PATTERN: for wait_for.
says() {
	[ "$(said "$2")" -ge "$1" ]
}

# logs N PATTERN: for wait_for.
logs() {
	[ "$(logged "$2")" -ge "$1" ]
}

# log_is SENTENCE PATTERN [SECONDS]
log_is() {
	if wait_for "${3:-20}" logs 1 "$2"; then
		ok "$1"
	else
		not_ok "$1" "no line like $2" "$(tail -n 5 "$T/daemon.log")"
	fi
}
