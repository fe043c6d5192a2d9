#!/bin/sh
# Two daemons on one database, and what operators do while they work.
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon two
echo 'dispatch: {deadline: 20s, concurrency: 4}' >>"$T/outboxd.yaml"

handler work <<'SH'
exec 9>"$T/lock/$OUTBOX_EVENT_ID"
flock -n 9 || echo "$OUTBOX_EVENT_ID" >>"$T/run/overlap"
echo "$OUTBOX_EVENT_ID" >>"$T/run/began"
SH
handler held 'concurrency: 1' <<'SH'
echo "$OUTBOX_EVENT_ID" >>"$T/run/held"
until [ -e "$T/go" ]; do sleep 0.05; done
SH
start_daemon "$T/outboxd.yaml"
first=$DAEMON
start_daemon "$T/outboxd.yaml" "$T/second.log"

# ---- shared work ----
publish work 200 >/dev/null
passes "two daemons deliver all" delivered work 200
is "each delivery ran once" \
    "$(sort "$T/run/began" | uniq -c | awk '{print $1}' | sort -u)" 1
is "both had a share" "$(sql "SELECT count(DISTINCT worker), min(n) > 10 FROM
    (SELECT worker, count(*) AS n FROM outbox.receipt GROUP BY 1) w")" "2|t"
is "no verdict was refused" \
    "$(cat "$T/daemon.log" "$T/second.log" | grep -c 'event=settled.*claim_lost')" 0

# ---- a pause of a subscriber is obeyed by all ----
ctl subscriber pause test.work.run --reason look >/dev/null
publish work 20 >/dev/null
handler after <<'SH'
exit 0
SH
publish after >/dev/null
delivered after 1
is "a paused subscriber's work waits, in both" "$(count work pending)" 20
stop_daemon TERM $first
start_daemon "$T/outboxd.yaml"
publish after >/dev/null
delivered after 2
is "also after a restart" "$(count work pending)" 20
ctl subscriber resume test.work.run >/dev/null
passes "resumed, it is delivered" delivered work 220

# ---- a pause of one that is claimed ----
e=$(publish held)
wait_for $SLOW grep -q "$e" "$T/run/held"
exits "an operator may pause what is claimed" 0 \
    ctl delivery pause "$e" test.held.run --reason look
: >"$T/go"
passes "the verdict of the attempt that ran then counts no more" wait_for $SLOW \
    sh -c "cat '$T/daemon.log' '$T/second.log' |
	grep -q 'event=settled.*$e.*answer=claim_lost'"
is "and it stays paused" "$(delivery held "status, pause_reason")" "paused|operator"
exits "a resume is 0" 0 ctl delivery resume "$e" test.held.run
passes "and delivers it" delivered held 1

# ---- revoked ----
rm "$T/go"
publish held 3 >/dev/null
wait_for $SLOW has_lines 3 "$T/run/held"
ctl grant revoke test.held.run event.subscribe on.held@v1 --workspace '*' >/dev/null 2>&1 ||
    ctl grant revoke test.held.run event.subscribe on.held@v1 >/dev/null
ran=$(lines "$T/run/held")
is "a revoke pauses all that is unfinished, from its commit" "$(sql "SELECT
    DISTINCT status, pause_reason FROM outbox.deliveries
    WHERE subscriber_id = 'test.held.run' AND status <> 'delivered'")" \
    "paused|authority_revoked"
: >"$T/go"
publish after >/dev/null
delivered after 3
passes "the attempt that ran then is refused" wait_for $SLOW sql_is 0 \
    "SELECT count(*) FROM outbox.claim"
is "and none starts any more" "$(lines "$T/run/held") $(count held delivered)" "$ran 1"
stop_daemon TERM
is "a daemon stops with 0" $? 0
second=$(echo $DAEMONS | awk '{print $NF}')
stop_daemon TERM $second
is "and the other, too" $? 0
is "none ran twice at the same moment" "$(lines "$T/run/overlap")" 0
