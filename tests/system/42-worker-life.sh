#!/bin/sh
# The life of workers: progress, cancels, upgrades, recycling, breakers, and
# what people see of it.
. "$(dirname "$0")/lib.sh"
begin worker-life
. "$ROOT/tests/system/daemon.sh"
. "$ROOT/tests/system/worker-lib.sh"
setup "dispatch: {lease: 7s, deadline: 5s, kill_grace: 500ms, settle_margin: 1s, breaker: {failures: 3, open: 2s}}" \
    "stop: {timeout: 500ms}" \
    "subscribers: {test.p.h: {lease: 3s, deadline: 1s, environment: {RECORD: $T/record}}, test.up.h: {environment: {RECORD: $T/up}}, test.re.h: {environment: {RECORD: $T/re}}, test.down.h: {environment: {RECORD: $T/down}}}"
HANDLER='deadline: 1s
    max_runtime: 6s
    concurrency: 8
    retry: {base: 100ms, cap: 300ms, max_attempts: 2, max_crashes: 3}' worker p
worker up
worker re 'max_requests: 5'
worker down
start_daemon "$T/outboxd.yaml" || exit 1

# ---- progress ----
e=$(tell p "progress 12 0.4; ack")
wait_for 20 says 1 "^start .*$e"
first=$(field "$e" claim_expires_at)
wait_for 10 sql_is t "SELECT claim_expires_at > '$first'::timestamptz + interval '1 s'
    FROM outbox.deliveries WHERE event_id = '$e'" &&
    ok "progress renews the lease in the database" ||
    not_ok "progress renews the lease in the database" "$(tail -n 3 "$T/daemon.log")"
becomes "a call with progress outlives deadline and first lease" "$e" \
    "status = 'delivered' AND attempt_count = 1"
e=$(tell p "progress 40 0.4; cancel; ack")
becomes "until max_runtime, and no longer" "$e" "status = 'delivered'" 20
is "then it is cancelled for its deadline" "$(said '^cancel .*deadline')" 1
e=$(tell p "progress 40 0.4; ack")
wait_for 20 says 1 "^start .*$e"
sql "SELECT outbox.pause('$e', 'test.p.h')" >/dev/null
passes "a call whose claim an operator ended is cancelled: claim_lost" \
    wait_for 10 says 1 '^cancel .*claim_lost'
is "and what it says then changes nothing" "$(sleep 1; field "$e" "status, pause_reason")" \
    "paused|operator"

# ---- an upgrade ----
old=$(tell up "until $T/go; ack")
wait_for 20 grep -q "start .*$old" "$T/up"
VERSION=2 worker up
new=$(tell up ack)
becomes "after an upgrade what is new is delivered" "$new" "status = 'delivered'"
is "by the new version" "$(grep "start .*$new" "$T/up" | cut -d' ' -f7)" 2
is "while the old one still runs what it had" "$(field "$old" status)" claimed
: >"$T/go"
becomes "and finishes it" "$old" "status = 'delivered' AND plugin_version = '1'"
is "as the old version" "$(grep "start .*$old" "$T/up" | cut -d' ' -f7)" 1
pid=$(grep "start .*$old" "$T/up" | cut -d' ' -f2)
passes "the old process is drained when nothing is owed to it any more" \
    wait_for 20 grep -q "eof $pid" "$T/up"
late=$(tell up "cancel; ack")
wait_for 20 grep -q "start .*$late" "$T/up"

# ---- recycling ----
tell_many 20 re ack
passes "calls go on over max_requests" wait_for 30 sql_is 20 "SELECT count(*)
    FROM outbox.deliveries WHERE subscriber_id = 'test.re.h' AND status = 'delivered'"
is "in processes of five each" "$(grep ^start "$T/re" | cut -d' ' -f2 | sort |
    uniq -c | awk '$1 > 5' | wc -l) $(grep -c ^hello "$T/re" | awk '{print ($1 >= 4)}')" "0 1"
is "none of which died" "$(logged 'level=warn event=worker_ended')" 0

# ---- the breaker ----
e=$(tell down "unavailable")
becomes "code unavailable is a retry" "$e" "attempt_count = 1"
log_is "and opens the breaker" 'event=breaker_opened .*subscriber=test.down.h .*reason=unavailable'
other=$(tell down ack)
wait_for 10 sql_is 1 "SELECT count(*) FROM outbox.breakers"
exits "status is 1 and says so" 1 ctl --json status
like "as breaker_open" "$OUT" '*"code":"breaker_open"*'
exits "explain says so" 0 ctl --json delivery explain "$other" test.down.h
like "as broken_off" "$OUT" '*"code":"broken_off"*'
is "what waits has lost no attempt" "$(field "$other" "status, attempt_count")" "pending|0"
# it would break the lane off again, if it came after the one that is tried
sql "SELECT outbox.discard('$e', 'test.down.h', 1, 'done')" >/dev/null
log_is "then one is tried" 'event=breaker_half_open .*subscriber=test.down.h'
becomes "and when it succeeds all goes on" "$other" "status = 'delivered'" 20
log_is "with the breaker closed" 'event=breaker_closed .*subscriber=test.down.h'
wait_for 10 sql_is 0 "SELECT count(*) FROM outbox.breakers" &&
    ok "for everybody to see" || not_ok "for everybody to see"
is "workers are shown, too" "$(sql "SELECT ready FROM outbox.workers
    WHERE plugin_id = 'test.down'")" 1

# ---- an installation that is deactivated ----
e=$(tell down "cancel; retry")
wait_for 20 grep -q "start .*$e" "$T/down"
ctl plugin deactivate test.down >/dev/null
passes "what runs for an installation that is deactivated is cancelled: operator" \
    wait_for 10 grep -q "^cancel .*operator" "$T/down"
becomes "and paused, no attempt lost" "$e" \
    "status = 'paused' AND pause_reason = 'installation_inactive'" 20
passes "its process ends by itself" wait_for 10 grep -q ^eof "$T/down"

# ---- stop ----
e=$(tell p "cancel; retry")
wait_for 20 says 1 "^start .*$e"
stop_daemon
is "the daemon stops" $? 0
is "what did not finish in time was cancelled: stop" "$(said '^cancel .*stop')" 1
is "and released, no attempt lost" "$(field "$e" "status, attempt_count, crash_count")" "pending|0|0"

# ---- the guilty one, with two daemons ----
sed 's/stop: .*//' "$T/outboxd.yaml" >"$T/second.yaml"
start_daemon "$T/outboxd.yaml" || exit 1
start_daemon "$T/second.yaml" "$T/second.log" || exit 1
guilty=$(tell p "signal 9")
tell_many 20 p "sleep 0.2; ack"
becomes "two daemons: the guilty one ends as crash_loop" "$guilty" \
    "pause_reason = 'crash_loop'" 60
passes "two daemons: the innocent are delivered" wait_for 60 sql_is 0 "SELECT count(*)
    FROM outbox.deliveries WHERE subscriber_id = 'test.p.h'
	AND status IN ('pending', 'claimed')"
is "two daemons: and no other is paused" "$(sql "SELECT count(*)
    FROM outbox.deliveries WHERE pause_reason = 'crash_loop'")" 1
