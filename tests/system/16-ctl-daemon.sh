#!/bin/sh
# outboxctl beside a living daemon: what it shows and changes is so.
. "$(dirname "$0")/lib.sh"
begin ctl-daemon
ctl schema install >/dev/null 2>&1
ctl contract add shop.ordered@v1 >/dev/null
S=acme.mail.send
mkdir "$T/say"
plugin_make "$T/p" acme.mail 1 send shop.ordered@v1 <<-SH
	#!/bin/sh
	read -r event
	echo "\$OUTBOX_EVENT_ID" >>"$T/say/ran"
	[ ! -e "$T/say/fail" ] || exit 1
	while [ -e "$T/say/wait" ]; do sleep 0.05; done
SH
ctl plugin install "$T/p" --store "$STORE" >/dev/null
ctl plugin activate acme.mail@1 --grant-all >/dev/null
daemon_config "$T/outboxd.yaml" \
    "dispatch: {poll_interval: 200ms, unavailable_grace: 2s}" "stop: {timeout: 1s}"
start_daemon "$T/outboxd.yaml" || exit 1
first=$DAEMON

publish() {
	echo '{}' | ctl publish shop.ordered@v1
}

status_is() { # EVENT STATUS
	sql_is "$2" "SELECT status FROM outbox.deliveries WHERE event_id = '$1'"
}

code_is() { # EVENT CODE
	[ "$(json "$(ctl --json delivery explain "$1" $S)" reasons,0,code)" = "$2" ]
}

until_true() { # SENTENCE COMMAND...
	local sentence=$1
	shift
	if wait_for 20 "$@"; then
		ok "$sentence"
	else
		not_ok "$sentence" "not within 20 s: $*" \
		    "$(tail -n 5 "$T/daemon.log")"
	fi
}

e=$(publish)
until_true "what is published is delivered" status_is "$e" delivered
exits "all is well" 0 ctl --json status
is "one daemon lives" "$(json "$OUT" daemons,0,pid)" "$DAEMON"

touch "$T/say/wait"
e=$(publish)
until_true "what runs is shown claimed" code_is "$e" claimed
like "with its process" "$(ctl delivery explain "$e" $S)" \
    "*process $DAEMON until *"
exits "pause ends the claim of what runs" 0 ctl delivery pause "$e" $S
rm "$T/say/wait"
ctl subscriber pause $S --reason "quiet, please" >/dev/null
exits "resumed under a paused subscriber" 0 ctl delivery resume "$e" $S
until_true "it waits for the subscriber" code_is "$e" subscriber_paused
exits "which is resumed" 0 ctl subscriber resume $S
until_true "and then it is delivered" status_is "$e" delivered

touch "$T/say/fail"
e=$(publish)
until_true "what fails is paused after its attempts" status_is "$e" paused
is "with the reason" "$(sql "SELECT pause_reason FROM outbox.deliveries
    WHERE event_id = '$e'")" retry_budget_exhausted
exits "a status that needs a person is 1" 1 ctl status
rm "$T/say/fail"
remedy=$(json "$(ctl --json delivery explain "$e" $S)" reasons,0,remedy)
like "explain says how to go on" "$remedy" \
    "mend the cause, then: outboxctl delivery resume $e $S"
exits "and that works" 0 ctl ${remedy##*outboxctl }
until_true "it is delivered" status_is "$e" delivered

exits "a daemon reloads a good file" 0 ctl -c "$T/outboxd.yaml" reload --pid "$DAEMON"
cp "$T/outboxd.yaml" "$T/good.yaml"
echo "colour: red" >>"$T/outboxd.yaml"
exits "a bad file is 78" 78 ctl -c "$T/outboxd.yaml" reload --pid "$DAEMON"
e=$(publish)
until_true "and the daemon goes on" status_is "$e" delivered
cp "$T/good.yaml" "$T/outboxd.yaml"

# a daemon that dies with work in hand
touch "$T/say/wait"
e=$(publish)
until_true "another runs" code_is "$e" claimed
worker=$(sql "SELECT claimed_by FROM outbox.deliveries WHERE event_id = '$e'")
stop_daemon KILL "$first"
rm "$T/say/wait"
start_daemon "$T/outboxd.yaml" || exit 1
exits "release gives back what the dead one held" 0 \
    ctl --json delivery release --worker "$worker"
is "all of it" "$(json "$OUT" released)" 1
until_true "and the next daemon delivers it" status_is "$e" delivered

# an artifact that is gone
ctl subscriber pause $S --reason "before the store is lost" >/dev/null
e=$(publish)
chmod -R u+w "$STORE" && mv "$STORE" "$T/lost" && mkdir "$STORE"
stop_daemon
ctl subscriber resume $S >/dev/null
start_daemon "$T/outboxd.yaml" || exit 1
until_true "a lost artifact is explained" code_is "$e" no_daemon_has_artifact
exits "and status knows" 1 ctl --json status
like "too" "$(json "$OUT" problems)" "*no_daemon_has_artifact*"
until_true "after the grace it is paused" status_is "$e" paused
is "with the reason" "$(sql "SELECT pause_reason FROM outbox.deliveries
    WHERE event_id = '$e'")" frozen_handler_unavailable
exits "installing the bundle again is 0" 0 ctl plugin install "$T/p" --store "$STORE"
exits "and resuming" 0 ctl delivery resume "$e" $S
ctl -c "$T/outboxd.yaml" reload --pid "$DAEMON" >/dev/null
if wait_for 45 status_is "$e" delivered; then
	ok "delivers it from the same artifact"
else
	not_ok "delivers it from the same artifact" "$(tail "$T/daemon.log")"
fi
stop_daemon && ok "the daemon stops with 0" || not_ok "the daemon stops with 0"
