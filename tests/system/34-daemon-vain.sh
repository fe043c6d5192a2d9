#!/bin/sh
# What is published for a lane that is full is no reason to wake.
. "$(dirname "$0")/daemon-lib.sh"
. "$(dirname "$0")/admin-lib.sh"
if ! command -v curl >/dev/null; then
	echo "# skipped: curl is missing"
	exit 0
fi
begin_daemon vain
with_admin
handler stuck 'concurrency: 1' 'deadline: 10m' <<'SH'
: >"$T/run/begun"
while [ ! -e "$T/go" ]; do sleep 0.1; done
SH
handler quick </dev/null
launch
publish stuck 1 >/dev/null
wait_for $SLOW test -e "$T/run/begun"
asleep() {
	[ "$(json "$(ask /v1/status)" work,asleep | tr 'T' 't')" = true ]
}
passes "beside a full lane the daemon sleeps for the sake of an empty one" \
    wait_for $SLOW asleep

before=$(metric outboxd_wakeups_total) began=$(now_ms)
i=0
while [ $i -lt 300 ]; do
	i=$((i + 1))
	echo "SELECT outbox.publish('on.stuck', 'v1', '1'); SELECT pg_sleep(0.005);"
done | psql -XAtq >/dev/null
took=$(($(now_ms) - began))
woken=$(($(metric outboxd_wakeups_total) - before))
# a commit that notifies may be followed by others before the key is given up
is "300 commits for the full one in $took ms wake it a few times only" \
    "$([ $woken -ge 1 ] && [ $woken -le $((took / 50 + 10)) ] && echo few ||
	echo "$woken times")" few
passes "it sleeps again when it is quiet" wait_for $SLOW asleep
publish quick >/dev/null
passes "and is woken for the empty one" delivered quick 1
: >"$T/go"
passes "nothing was lost" delivered stuck 301
stop_daemon
