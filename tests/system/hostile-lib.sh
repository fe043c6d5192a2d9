# hostile-lib.sh - what the scripts about hostile plugins share; after
# daemon-lib.sh and begin_daemon.

# peer_only: the database asks for the peer, as it should where plugins run.
# Undone at the end, for other scripts share the server.
HBA=$SYSTEM_CLUSTER/pg/data/pg_hba.conf
peer_only() {
	cp -p "$HBA" "$T/hba"
	cp -p "$SYSTEM_CLUSTER/pg/data/pg_ident.conf" "$T/ident"
	trap 'peer_undo; finish $?' EXIT
	{
		echo "local $PGDATABASE all peer map=outboxd"
		cat "$T/hba"
	} >"$HBA"
	printf 'outboxd %s postgres\n' root daemon \
	    >>"$SYSTEM_CLUSTER/pg/data/pg_ident.conf"
	psql -XAtqd postgres -c 'SELECT pg_reload_conf()' >/dev/null
}
peer_undo() {
	cat "$T/hba" >"$HBA"
	cat "$T/ident" >"$SYSTEM_CLUSTER/pg/data/pg_ident.conf"
	psql -XAtqd postgres -c "SELECT pg_reload_conf()" >/dev/null
}

# bundle NAME PROGRAM PROTOCOL HANDLER [LINE...]: the plugin test.NAME whose
# command is PROGRAM with $ARGS; lines are added to the root of its manifest,
# HANDLER to the one handler, "run".  Installed, not active.
bundle() {
	local name=$1 dir=$T/bundle/$1 program=$2 protocol=$3 handler=$4
	shift 4
	mkdir -p "$dir/bin"
	cp "$BUILD/tests/plugins/$program" "$dir/bin/$program"
	{
		printf 'plugin: test.%s\nversion: "1"\nprotocol: %s\n' \
		    "$name" "$protocol"
		echo "command: [bin/$program${ARGS:+, $ARGS}]"
		[ $# -eq 0 ] || printf '%s\n' "$@"
		printf 'handlers:\n  run:\n    version: "1"\n'
		echo "    subscribes: [{contract: on.$name@v1}]"
		[ -z "$handler" ] || echo "    $handler"
	} >"$dir/plugin.yaml"
	sql "SELECT outbox.contract_add('on.$name', 'v1')" >/dev/null
	if ! ctl plugin install "$dir" --store "$STORE" >"$T/err" 2>&1; then
		cat "$T/err" >&2
		exit 70
	fi
}

# activate NAME...: all at once.
activate() {
	local name words=
	for name; do
		words="$words SELECT outbox.plugin_activate('test.$name', '1',
		    'grant_all');"
	done
	sql "$words" >/dev/null || exit 70
}

deactivate() { # NAME...
	local name words=
	for name; do
		words="$words SELECT outbox.plugin_deactivate('test.$name');"
	done
	sql "$words" >/dev/null
}

# load: a fact for test.healthy about every 10 ms, each by itself, until
# load_end; LOAD is its process.
load() {
	psql -XAtqc "DO \$\$ BEGIN LOOP
		PERFORM outbox.publish('on.healthy', 'v1', '{}',
		    occurred_at => clock_timestamp());
		COMMIT;
		PERFORM pg_sleep(0.01);
		COMMIT;
	    END LOOP; END \$\$" 2>/dev/null &
	LOAD=$!
	DAEMONS="$DAEMONS $LOAD"
}

load_end() {
	sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	    WHERE datname = current_database() AND query LIKE 'DO%on.healthy%'
		AND pid <> pg_backend_pid()" >/dev/null
	wait "$LOAD" 2>/dev/null
}

# p99 FROM [TO]: of the lines of $AGES behind FROM, in ms.
p99() {
	sed -n "$(($1 + 1)),${2:-\$}p" "$AGES" | cut -d' ' -f2 | sort -n |
	    awk '{ v[NR] = $1 } END {
		i = int(NR * 0.99 + 0.5); if (i < 1) i = 1
		printf "%.1f\n", v[i] / 1000 }'
}

# below A B: A <= B, with fractions.
below() {
	awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 <= b + 0) }'
}

# of_store: processes that run what is in our store, one a line.
of_store() {
	local exe
	for exe in /proc/[0-9]*/exe; do
		case $(readlink "$exe" 2>/dev/null) in
		"$T"/*) exe=${exe#/proc/} && echo "${exe%/exe}" ;;
		esac
	done
}

children() { # of the daemon, with state and name
	ps -o pid=,stat=,comm= --ppid "$DAEMON"
}
