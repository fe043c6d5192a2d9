#!/bin/sh
# What a daemon can run and what it cannot; who kills daemons; two of them.
. "$(dirname "$0")/lib.sh"
begin daemon-targets
. "$ROOT/tests/system/daemon.sh"

setup "dispatch: {unavailable_grace: 2s, lease: 5s, deadline: 2s, kill_grace: 500ms, settle_margin: 1s}" \
    "subscribers: {test.puppet.h: {environment: {RECORD: $T/record}, deadline: 3s}}"

# ---- targets that cannot be executed ----

install ok bad_interpreter deaf noise
entry() {
	echo "$STORE/sha256-$(sql "SELECT split_part(artifact_digest, ':', 2)
	    FROM outbox.installations WHERE plugin_id = 'test.$1'")"
}
chmod -R u+w "$(entry deaf)" && chmod a-x "$(entry deaf)/bin/run"
chmod -R u+w "$(entry noise)" && rm -rf "$(entry noise)"
start_daemon "$T/outboxd.yaml" || exit 1
e=$(publish)
for s in deaf noise bad_interpreter; do
	wait_for 15 sql_is frozen_handler_unavailable "SELECT pause_reason
	    FROM outbox.deliveries WHERE event_id = '$e'
	    AND subscriber_id = 'test.$s.h'"
	is "$s cannot be executed: paused after the grace, uncounted" \
	    "$(field "$e" "pause_reason || attempt_count" "test.$s.h")" \
	    frozen_handler_unavailable0
done
is "the one beside it is delivered" "$(field "$e" status test.ok.h)" \
    delivered
is "each is said once" "$(logged event=target_unavailable)" 3

# ---- the file is replaced while the daemon runs ----

chmod -R u+w "$(entry ok)"
printf '#!/bin/sh\ntouch %s/forged\n' "$T" >"$(entry ok)/bin/run"
e=$(publish)
wait_for 15 sql_is t "SELECT pause_reason = 'frozen_handler_unavailable'
    AND attempt_count = 0 FROM outbox.deliveries
    WHERE event_id = '$e' AND subscriber_id = 'test.ok.h'"
is "what is not what was frozen is not run" $? 0
[ ! -e "$T/forged" ] && ok "not once" || not_ok "not once"
stop_daemon
for s in ok bad_interpreter deaf noise; do
	ctl plugin deactivate "test.$s" >/dev/null
done

# ---- an upgrade leaves what is owed on the old version ----

cp -r "$PLUGINS/puppet" "$T/puppet2"
sed -i 's/^version: .*/version: "2"/' "$T/puppet2/plugin.yaml"
sed -i '1a touch "$RECORD.two"' "$T/puppet2/bin/run"
install puppet
old=$(make_do "exit 0")
ctl -c "$T/outboxd.yaml" plugin install "$T/puppet2" >/dev/null
ctl plugin activate test.puppet@2 --same-grants >/dev/null
start_daemon "$T/outboxd.yaml" || exit 1
becomes "the old version runs what it owes" "$old" \
    "status = 'delivered' AND plugin_version = '1'"
[ ! -e "$RECORD.two" ] && ok "and the new one does not" ||
    not_ok "and the new one does not"
new=$(make_do "exit 0")
becomes "the new version runs what is new" "$new" \
    "status = 'delivered' AND plugin_version = '2'"
[ -e "$RECORD.two" ] && ok "it did" || not_ok "it did"

# ---- revoked while it runs ----

e=$(make_do "sleep 2.9")
waits "$e" "status = 'claimed'"
ctl grant revoke test.puppet.h event.subscribe fact.made@v1 >/dev/null
becomes "a revoke pauses what runs" "$e" "status = 'paused'
    AND pause_reason = 'authority_revoked'"
wait_for 8 grep -q "event=settled.*event_id=$e.*answer=claim_lost" \
    "$T/daemon.log"
is "and its verdict counts no more" $? 0
stop_daemon
ctl plugin deactivate test.puppet >/dev/null

# ---- two daemons share the work ----

install parent_killer
ctl plugin deactivate test.parent_killer >/dev/null
ctl plugin activate test.puppet@2 --grant-all >/dev/null
: >"$RECORD"
start_daemon "$T/outboxd.yaml" "$T/daemon.log" || exit 1
one=$DAEMON
start_daemon "$T/outboxd.yaml" "$T/second.log" || exit 1
make_many 200 "exit 0"
wait_for 60 is_settled
is "two daemons deliver all" "$(grep -c ^end "$RECORD")" 200
is "each of them once" "$(awk '/^start/ {print $2}' "$RECORD" | sort -u |
    wc -l)" 200
is "none at the same moment" "$(grep -c overlap "$RECORD")" 0
a=$(grep -c 'event=settled.*verdict=ack' "$T/second.log")
[ "$a" -gt 20 ] && [ "$a" -lt 180 ] && ok "both had their share" ||
    not_ok "both had their share" "the second had $a of 200"
stop_daemon
stop_daemon TERM "$one"
ctl plugin deactivate test.puppet >/dev/null

# ---- a handler that kills the daemon ----

ctl plugin activate test.parent_killer@1 --grant-all >/dev/null
i=0
while [ $i -lt 25 ]; do publish >/dev/null; i=$((i + 1)); done
killer=$(publish '{"kill": true}')
i=0
while [ $i -lt 25 ]; do publish >/dev/null; i=$((i + 1)); done
lives=0
over() {
	sql_is t "SELECT pause_reason = 'crash_loop' FROM outbox.deliveries
	    WHERE event_id = '$killer'" && is_settled
}
until over || [ $lives -ge 8 ]; do
	start_daemon "$T/outboxd.yaml" || break
	while kill -0 "$DAEMON" 2>/dev/null && ! over; do sleep 0.3; done
	lives=$((lives + 1))
done
is "the killer alone is paused crash_loop" "$(sql "SELECT count(*)
    FROM outbox.deliveries WHERE pause_reason = 'crash_loop'")" 1
is "it is the right one" "$(field "$killer" pause_reason)" crash_loop
is "all others are delivered" "$(sql "SELECT count(*) FROM outbox.deliveries
    WHERE subscriber_id = 'test.parent_killer.h'
	AND status = 'delivered'")" 50
echo "# it took $lives daemons"
stop_daemon
