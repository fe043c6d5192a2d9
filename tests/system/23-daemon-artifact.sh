#!/bin/sh
# What runs is what was frozen, or nothing: artifacts that cannot be executed
# here, have changed, or are gone; and upgrades.
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon artifact

runs() { # NAME: a handler that writes down that it ran
	handler "$1" "${2:-concurrency: 1}" <<-SH
		echo "$1 ${VERSION:-1}" >>"\$T/run/$1"
	SH
}
names="missing plain interpreter format entry"
for name in missing plain entry; do
	runs $name
done
handler interpreter </dev/null
handler format </dev/null
# a bundle may be right and yet not be executable on this machine
rebuild() { # NAME: what stands in its directory replaces it
	ctl plugin deactivate "test.$1" >/dev/null
	sed -i 's/version: "1"/version: "2"/' "$T/bundle/$1-1/plugin.yaml"
	ctl plugin install "$T/bundle/$1-1" --store "$STORE" >/dev/null &&
	    ctl plugin activate "test.$1@2" --grant-all >/dev/null
}
printf '#!%s\necho ran >>%s\n' "$T/interpreter" "$T/run/interpreter" \
    >"$T/bundle/interpreter-1/bin/handle"
printf 'garbage\000\001' >"$T/bundle/format-1/bin/handle"
rebuild interpreter
rebuild format
entry() { # NAME: its directory in the store
	echo "$STORE/$(sql "SELECT replace(artifact_digest, ':', '-')
	    FROM outbox.targets WHERE plugin_id = 'test.$1'
	    AND installation_state = 'active'")"
}
cp -rp "$STORE" "$T/whole"
rm "$(entry missing)/bin/handle"
chmod a-x "$(entry plain)/bin/handle"
mv "$(entry entry)" "$T/entry"
sed "s,$STORE,$T/whole," "$T/outboxd.yaml" >"$T/second.yaml"

# ---- a daemon that cannot run it, beside one that can ----
start_daemon "$T/outboxd.yaml"
first=$DAEMON
for name in $names; do
	publish $name 2 >/dev/null
done
wait_for $SLOW sql_is 0 "SELECT count(*) FROM outbox.lanes WHERE daemons > 0"
is "what cannot be executed is offered no more" "$(sql "SELECT count(*)
    FROM outbox.lanes WHERE daemons > 0")" 0
is "its deliveries are pending, no attempt counted" "$(sql "SELECT DISTINCT
    status, attempt_count, crash_count FROM outbox.deliveries")" "pending|0|0"
is "each is named once in the log" \
    "$(logged 'level=error.*event=target_unavailable')" 5
cp /bin/sh "$T/interpreter"
start_daemon "$T/second.yaml" "$T/second.log"
for name in missing plain entry interpreter; do
	passes "a daemon that can run it delivers it: $name" delivered $name 2
done
stop_daemon TERM
rm "$T/interpreter"
stop_daemon TERM $first

# ---- none can: after the grace it is paused ----
: >"$T/daemon.log"
echo 'dispatch: {unavailable_grace: 1500ms}' >>"$T/outboxd.yaml"
start_daemon "$T/outboxd.yaml"
for name in $names; do
	publish $name >/dev/null
done
wait_for $SLOW sql_is 7 "SELECT count(*) FROM outbox.deliveries
    WHERE status = 'paused'"
for name in $names; do
	is "nobody can run it, so it is paused: $name" "$(sql "SELECT DISTINCT
	    status, pause_reason, attempt_count, crash_count
	    FROM outbox.deliveries WHERE subscriber_id = 'test.$name.run'
	    AND status <> 'delivered'")" "paused|frozen_handler_unavailable|0|0"
done
stop_daemon TERM

# ---- mended and resumed ----
mv "$T/entry" "$(entry entry)"
start_daemon "$T/outboxd.yaml"
e=$(sql "SELECT event_id FROM outbox.deliveries
    WHERE subscriber_id = 'test.entry.run' AND status = 'paused'")
exits "a resume of what can be run again is 0" 0 \
    ctl delivery resume "$e" test.entry.run
passes "and delivers it" delivered entry 3

# ---- changed while the daemon runs ----
runs frozen
publish frozen >/dev/null
delivered frozen 1
dir=$(entry frozen)
offered() { # HOW-MANY daemons offer it
	sql_is "$1" "SELECT daemons FROM outbox.lanes
	    WHERE subscriber_id = 'test.frozen.run'"
}
chmod -R u+w "$dir"
n=1
for how in rewritten replaced disguised; do
	cp -p "$dir/bin/handle" "$T/good"
	sed 's/echo "frozen/echo "forged/' "$T/good" >"$T/forged"
	chmod 755 "$T/forged"
	case $how in
	rewritten) cat "$T/forged" >"$dir/bin/handle" ;;
	replaced) cp "$T/forged" "$T/new" && mv "$T/new" "$dir/bin/handle" ;;
	disguised) # same size, same time of change
		cat "$T/forged" >"$dir/bin/handle"
		touch -r "$T/good" "$dir/bin/handle" ;;
	esac
	publish frozen >/dev/null
	passes "an artifact that was $how is noticed" wait_for $SLOW offered 0
	is "and what was put there did not run" "$(grep -c forged "$T/run/frozen")" 0
	is "nothing was counted" "$(sql "SELECT DISTINCT attempt_count FROM
	    outbox.deliveries WHERE subscriber_id = 'test.frozen.run'
	    AND status <> 'delivered'")" 0
	cat "$T/good" >"$dir/bin/handle"
	kill -HUP $DAEMON
	wait_for $SLOW offered 1
	for e in $(sql "SELECT event_id FROM outbox.deliveries
	    WHERE subscriber_id = 'test.frozen.run' AND status = 'paused'"); do
		ctl delivery resume "$e" test.frozen.run >/dev/null
	done
	n=$((n + 1))
	passes "mended, it goes on" delivered frozen $n
done

# ---- an upgrade ----
handler grow 'concurrency: 1' 'deadline: 30s' <<'SH'
echo old >>"$T/run/grow"
until [ -e "$T/go" ]; do sleep 0.05; done
SH
publish grow 3 >/dev/null
wait_for $SLOW has_lines 1 "$T/run/grow"
VERSION=2 runs grow
publish grow 2 >/dev/null
: >"$T/go"
passes "old and new deliveries of an upgraded plugin are delivered" delivered grow 5
is "the old ones by the old artifact, the new ones by the new" \
    "$(sort "$T/run/grow" | uniq -c | tr -s ' ' | paste -sd,)" " 2 grow 2, 3 old"
is "and their receipts say so" "$(sql "SELECT plugin_version, count(*)
    FROM outbox.deliveries WHERE subscriber_id = 'test.grow.run'
    GROUP BY 1 ORDER BY 1" | paste -sd' ')" "1|3 2|2"

# ---- deactivated: paused with that reason, and never runs ----
publish grow >/dev/null
delivered grow 6
ctl subscriber pause test.grow.run --reason look >/dev/null
publish grow 2 >/dev/null
ctl plugin deactivate test.grow >/dev/null
ctl subscriber resume test.grow.run >/dev/null
is "a deactivation pauses what is pending, from its commit" "$(sql "SELECT
    DISTINCT status, pause_reason FROM outbox.deliveries WHERE subscriber_id =
    'test.grow.run' AND status <> 'delivered'")" "paused|installation_inactive"
stop_daemon TERM
is "the daemon stops with 0" $? 0
