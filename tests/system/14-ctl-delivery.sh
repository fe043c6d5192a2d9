#!/bin/sh
# delivery: list, show, explain, and what an operator may do.  No daemon runs:
# the test claims and settles itself, as a daemon would.
. "$(dirname "$0")/lib.sh"
begin ctl-delivery
ctl schema install >/dev/null 2>&1
ctl contract add shop.ordered@v1 >/dev/null
plugin_make "$T/p" acme.mail 1 send shop.ordered@v1 </dev/null
ctl plugin install "$T/p" --store "$STORE" >/dev/null
ctl plugin activate acme.mail@1 --grant-all >/dev/null
S=acme.mail.send
W=11111111-1111-4111-8111-111111111111
target=$(sql "SELECT target_id FROM outbox.targets")

publish() {
	echo '{}' | ctl publish shop.ordered@v1 "$@"
}

heartbeat() { # TARGETS
	sql "SELECT FROM outbox.heartbeat('$W', 'host1', 42, '0', '{$1}',
	    1000000, 300000, false)"
}

# claim LEASE_MS: one delivery; prints claim, fact, ord and event.
claim() {
	sql "BEGIN ISOLATION LEVEL READ COMMITTED;
	    SELECT claim_id, fact_id, ord, event_id FROM outbox.claim('$W',
	    '{$target}', '{1}', '{$1}', '{3}', 1000000, 1000000, 0)
	    WHERE answer = 'item'; COMMIT" | tr '|' ' '
}

# settle CLAIM FACT ORD VERDICT DELAY_MS OUTCOME ERROR
settle() {
	sql "BEGIN ISOLATION LEVEL READ COMMITTED;
	    SELECT unnest(outbox.settle('$W', '{$1}', '{$target}', '{$2}',
	    '{$3}', '{$4}', '{$5}', '{NULL}', '{$6}', '{5}', '{1}', '{NULL}',
	    ARRAY['$7'])); COMMIT"
}

# reason EVENT: the codes that explain gives.  LANES: what a living daemon
# offers, told anew each time, for it counts as dead after 15 s.
LANES=none
reason() {
	[ "$LANES" = none ] || heartbeat "$LANES"
	ctl --json delivery explain "$1" $S >"$T/explain" || return
	json "$(cat "$T/explain")" reasons | grep -o '"code": *"[a-z_]*"' |
	    sed 's/.*: *"\(.*\)"/\1/' | paste -sd' '
}

# ---- explain ----
e=$(publish)
is "no daemon ever: explained" "$(reason "$e")" no_daemon
LANES=
is "a daemon without the artifact: explained" "$(reason "$e")" \
    no_daemon_has_artifact
LANES=$target
is "nothing in the way: due" "$(reason "$e")" due
set -- $(claim 60000)
is "claimed: explained" "$(reason "$e")" claimed
like "with the worker and its host" "$(json "$(cat "$T/explain")" reasons,0,text)" \
    "held by worker $W on host1, process 42 until *, attempt 1"
exits "release wants a worker" 64 ctl delivery release
exits "release of its claims is 0" 0 ctl --json delivery release --worker $W
is "and counts them" "$(json "$OUT" released)" 1
is "what it settles then is lost" "$(settle "$1" "$2" "$3" ack 0 ok '')" claim_lost
set -- $(claim 60000)
is "a retry: done" "$(settle "$1" "$2" "$3" retry 3600000 failed 'no
route')" "done"
is "not due yet: explained" "$(reason "$e")" not_due
like "with the error, on one line" "$(ctl delivery explain "$e" $S)" \
    '*last error: no?nroute*'
like "and retry is named" "$(json "$(cat "$T/explain")" reasons,0,remedy)" \
    "outboxctl delivery retry $e $S"
exits "show is 0" 0 ctl --json delivery show "$e" $S
is "and tells the attempts" "$(json "$OUT" attempts,1,outcome)" failed
is "with their error" "$(json "$OUT" attempts,1,error)" "no
route"
exits "people get it, too" 0 ctl delivery show "$e" $S
like "line by line" "$OUT" "*subscriber_id *$S*status *pending*"

# ---- one delivery ----
exits "retry is 0" 0 ctl --json delivery retry "$e" $S
is "and it is due" "$(sql "SELECT available_at <= now() FROM outbox.deliveries")" t
exits "resume of what is not paused is 1" 1 ctl --json delivery resume "$e" $S
is "with its code" "$(json "$ERR" error,code)" OB011
exits "pause --dry-run is 0" 0 ctl --json delivery pause "$e" $S --dry-run
is "and changes nothing" "$(sql "SELECT status FROM outbox.deliveries")" pending
exits "pause is 0" 0 ctl --json delivery pause "$e" $S --reason "look first"
is "and answers paused" "$(json "$OUT" answer)" paused
is "paused: explained" "$(reason "$e")" paused
is "with resume named" "$(json "$(cat "$T/explain")" reasons,0,remedy)" \
    "outboxctl delivery resume $e $S"
exits "retry of a paused one is 1" 1 ctl --json delivery retry "$e" $S
is "with its code" "$(json "$ERR" error,code)" OB031
exits "resume of another generation is 1" 1 ctl delivery resume "$e" $S --generation 2
exits "resume is 0" 0 ctl delivery resume "$e" $S
is "and attempts begin anew" "$(sql "SELECT attempt_count FROM outbox.deliveries")" 0
set -- $(claim 60000)
exits "pause of a claimed one is 0" 0 ctl delivery pause "$e" $S
is "and ends its claim" "$(settle "$1" "$2" "$3" ack 0 ok '')" claim_lost
exits "the remedy of explain works as it stands" 0 \
    ctl $(ctl --json delivery explain "$e" $S |
	sed 's/.*"remedy":"outboxctl \([^"]*\)".*/\1/')
set -- $(claim 60000)
settle "$1" "$2" "$3" ack 0 ok '' >/dev/null
is "delivered: explained" "$(reason "$e")" delivered
exits "discard of a delivered one is 1" 1 ctl delivery discard "$e" $S --reason x
exits "a delivery to nobody is 1" 1 ctl delivery explain "$e" acme.mail.read
like "and says why" "$ERR" "*is not owed to acme.mail.read*"
exits "an unknown event is 1" 1 ctl delivery show \
    018f2c1e-7b1a-4c55-9a51-3d1b7a0c9eff $S

# ---- expired claims and full lanes ----
e=$(publish)
claim 1 >/dev/null
wait_for 5 sql_is t "SELECT bool_and(claim_expires_at < clock_timestamp())
    FROM outbox.deliveries WHERE status = 'claimed'"
like "an expired claim: explained" "$(reason "$e")" "claim_expired*"
claim 60000 >/dev/null
for i in 1 2 3 4; do
	publish >/dev/null
	claim 60000 >/dev/null
done
e=$(publish)
is "a full lane: explained" "$(reason "$e")" lane_full
ctl delivery release --worker $W >/dev/null

# ---- pause reasons ----
set -- $(claim 60000)
settle "$1" "$2" "$3" retry 0 failed x >/dev/null
ctl plugin deactivate acme.mail >/dev/null
is "an inactive installation: explained" "$(reason "$e")" paused
like "with retain named" "$(json "$(cat "$T/explain")" reasons,0,remedy)" \
    "outboxctl plugin retain acme.mail@1 && outboxctl delivery resume $e $S"
exits "resume is refused for it" 1 ctl --json delivery resume "$e" $S
is "with its code" "$(json "$ERR" error,code)" OB014
ctl plugin retain acme.mail@1 >/dev/null
exits "and granted after it is retained" 0 ctl delivery resume "$e" $S
ctl plugin activate acme.mail@1 >/dev/null

# ---- many ----
ctl delivery discard --all --subscriber $S --reason "clean up" >/dev/null
is "discard --all ends what was left" "$(sql "SELECT count(*)
    FROM outbox.deliveries WHERE status NOT IN ('delivered', 'discarded')")" 0
like "discarded: explained" "$(reason "$e")" discarded
for i in 1 2 3; do
	publish --subject "s-$i" >/dev/null
done
publish --workspace default --available-at 2999-01-01 >/dev/null
claim 60000 >/dev/null
exits "a dry run of many tells each" 1 ctl --json delivery discard --all \
    --subscriber $S --status pending,claimed --reason x --dry-run
is "which would be" "$(echo "$OUT" | grep -c '"answer":"discarded"')" 3
is "and which not" "$(echo "$OUT" | grep -c '"answer":"skipped"')" 1
like "with the code" "$OUT" '*"code":"OB031"*'
is "and changes nothing" "$(sql "SELECT count(*) FROM outbox.deliveries
    WHERE status = 'pending'")" 3
exits "retry --all is 0" 0 ctl delivery retry --all --subscriber $S
like "and sums up" "$OUT" "*retry: 3 done, 0 skipped"
exits "pause --all is 0" 0 ctl --json delivery pause --all --contract shop.ordered@v1
is "for each a line" "$(echo "$OUT" | wc -l)" 4
is "of JSON" "$(json "$(echo "$OUT" | head -1)" generation)" 1
exits "--limit holds" 0 ctl --json delivery resume --all --subscriber $S --limit 1
is "for many, too" "$(echo "$OUT" | wc -l)" 1
exits "resume --all is 0" 0 ctl delivery resume --all --status paused
exits "nothing left to do is 0" 0 ctl delivery resume --all --status paused
like "and says so" "$OUT" "resume: 0 done, 0 skipped"

# ---- list ----
exits "list is 0" 0 ctl --json delivery list --status delivered,discarded
is "and filters" "$(echo "$OUT" | grep -c '"status":"pending"')" 0
is "with the columns of the view" "$(json "$(echo "$OUT" | head -1)" subscriber_id)" $S
exits "a contract without version is every version" 0 ctl --json delivery list \
    --contract shop.ordered --limit 2
is "and the limit holds" "$(echo "$OUT" | wc -l)" 2
exits "an unknown contract has none" 0 ctl --json delivery list --contract shop.none
is "at all" "$OUT" ""
exits "list of another subscriber" 0 ctl --json delivery list --subscriber a.b.c
is "is empty" "$OUT" ""
exits "and for people (none)" 0 ctl delivery list --subscriber a.b.c
is "says so" "$OUT" "(none)"
