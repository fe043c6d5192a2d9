#!/bin/sh
# The admin socket: who may ask, whose it is, and what bad clients cost.
. "$(dirname "$0")/daemon-lib.sh"
. "$(dirname "$0")/admin-lib.sh"
if ! command -v curl >/dev/null; then
	echo "# skipped: curl is missing"
	exit 0
fi
begin_daemon admin
with_admin
CLIENTS=$BUILD/tests/system/admin-clients

handler quick "concurrency: 8" </dev/null
launch
passes "the daemon is ready" wait_for $SLOW answers /readyz 200
is "and says so" "$(ask /readyz)" ready
is "it is healthy" "$(ask /healthz)" ok
is "the socket is for user and group" "$(stat -c %a "$SOCKET")" 660

# ---- status ----
publish quick 5 >/dev/null
delivered quick 5
wait_for $SLOW sql_is 5 "SELECT count(*) FROM outbox.receipt"
status=$(ask /v1/status)
is "status is JSON and tells of the daemon" "$(json "$status" daemon,pid)" \
    "$DAEMON"
is "its links" "$(json "$status" links,1,link) $(json "$status" links,1,state)" \
    "settle up"
is "its lanes, with depth" "$(json "$status" lanes,0,subscriber_id) $(
    json "$status" lanes,0,pending) $(json "$status" lanes,0,acks)" \
    "test.quick.run 0 5"
is "and breaker" "$(json "$status" lanes,0,breaker,state)" closed
is "and its duties" "$(echo "$status" | grep -o '"duty":"[a-z]*"' |
    sed 's/.*:"\(.*\)"/\1/' | paste -sd' ')" "claim settle reap wake heartbeat"
is "each was done in the last minute" "$(for i in 0 1 2 3 4; do
	[ "$(json "$status" duties,$i,age_ms)" -lt 60000 ] || echo "$i"
done)" ""

# ---- what is not there ----
is "an unknown path is 404" "$(code /v1/secrets)" 404
is "told in JSON" "$(json "$(ask /v1/secrets)" error)" not_found
is "another method is 405" "$(code /v1/status -d x)" 405
# who asks first hears it; who just sends may find the door shut instead
is "a body beyond 64 KiB is 413" "$(head -c 100000 /dev/zero |
    code /v1/status -H 'Expect: 100-continue' --data-binary @-)" 413

# ---- bad clients ----
# How long 20 deliveries take, ms.
pace() {
	local before start
	before=$(count quick delivered)
	start=$(now_ms)
	publish quick 20 >/dev/null
	delivered quick $((before + 20))
	echo $(($(now_ms) - start))
}
has_descriptors() { # AT MOST
	[ "$(descriptors "$DAEMON")" -le "$1" ]
}
ask /metrics >/dev/null # its link is open now
sleep 0.2
usual=$(descriptors "$DAEMON")
pace >/dev/null
calm=$(pace)
rss=$(rss_kb "$DAEMON")
for mode in silent drip half; do
	"$CLIENTS" "$SOCKET" $mode 70 13 >"$T/ended.$mode" &
	eval "$mode=$!"
done
"$CLIENTS" "$SOCKET" deaf 70 13 >/dev/null &
deaf=$!
for client in $silent $drip $half $deaf; do
	wait_for 5 sh -c "[ \$(ls /proc/$client/fd | wc -l) -gt 70 ]"
done
is "280 bad clients: another one is answered" "$(ask /healthz)" ok
loud=$(pace)
is "and deliveries go on as before ($calm ms, now $loud ms)" \
    "$([ "$loud" -le $((3 * calm + 1000)) ] && echo yes || echo "$loud")" yes
is "no more than 64 of them are kept" "$([ "$(descriptors "$DAEMON")" -le \
    $((usual + 80)) ] && echo yes || descriptors "$DAEMON")" yes
wait $silent $drip $half $deaf
is "those that say nothing are ended in time" "$(cat "$T/ended.silent")" 70
is "those that send a byte a second, too" "$(cat "$T/ended.drip")" 70
is "and those with half a request" "$(cat "$T/ended.half")" 70
passes "and their descriptors come back" \
    wait_for $SLOW has_descriptors "$usual"
# What the allocator keeps levels off after some rounds.
grown=9999 round=0
while [ "$grown" -ge 512 ] && [ $round -lt 12 ]; do
	round=$((round + 1))
	rss=$(rss_kb "$DAEMON")
	"$CLIENTS" "$SOCKET" vanish 500 20 >"$T/ended"
	[ "$(cat "$T/ended") $(ask /healthz)" = "500 ok" ] || break
	wait_for $SLOW has_descriptors "$usual"
	grown=$(($(rss_kb "$DAEMON") - rss))
done
is "500 clients that ask and go away are no matter" \
    "$(cat "$T/ended") $(ask /healthz)" "500 ok"
passes "their descriptors come back" wait_for $SLOW has_descriptors "$usual"
if keeps_freed; then
	echo "# ASan keeps what is freed: memory is not measured"
else
	is "and after $round rounds 500 more took no memory" \
	    "$([ "$grown" -lt 512 ] && echo none || echo "$grown kB")" none
fi

# ---- whose socket it is ----
cp "$T/outboxd.yaml" "$T/other.yaml"
first=$DAEMON
"$OUTBOXD" -c "$T/other.yaml" >"$T/second.log" 2>&1 &
second=$!
DAEMONS="$DAEMONS $second"
passes "a second daemon is told that the socket is in use, and what to do" \
    wait_for $SLOW grep -q \
    'level=error event=admin_failed.*another outboxd has it; stop' "$T/second.log"
passes "it works without" wait_for $SLOW grep -q event=ready "$T/second.log"
is "the first still answers" "$(json "$(ask /v1/status)" daemon,pid)" "$first"
kill -KILL "$first"
wait "$first" 2>/dev/null
is "one that is killed leaves its socket" "$([ -S "$SOCKET" ] && echo there)" there
passes "which the other one replaces" wait_for $SLOW sh -c \
    "curl -s -m 5 --unix-socket '$SOCKET' http://d/v1/status |
    grep -q '\"pid\":$second,'"
stop_daemon TERM "$second"
is "a stop ends with 0" $? 0
is "and takes the socket away" "$([ -e "$SOCKET" ] || echo gone)" gone

# ---- without the database ----
sed -i 's/dbname=[^ "]*/dbname=there_is_none/' "$T/outboxd.yaml"
launch
passes "without a database it is alive" wait_for $SLOW answers /healthz 200
is "but not ready" "$(code /readyz) $(ask /readyz)" "503 not ready: starting"
is "and metrics come all the same" "$(metric 'outboxd_link_up{link="claim"}')" 0
is "which say that nothing is known of the lanes" "$(metric outboxd_depth_known)" 0
is "status says why" "$(json "$(ask /v1/status)" depth,error)" \
    "the database does not answer"
stop_daemon
sed -i "s/dbname=there_is_none/dbname=$PGDATABASE/" "$T/outboxd.yaml"

# ---- who may ask ----
if [ "$(id -u)" -ne 0 ]; then
	launch
	wait_for $SLOW answers /healthz 403
	is "the daemon's own user may not ask: plugins are he" \
	    "$(json "$(ask /healthz)" error)" forbidden
	exit 0
fi
as() { # USER GROUP GROUPS COMMAND...
	local who="--reuid=$1 --regid=$2"
	if [ -n "$3" ]; then who="$who --groups=$3"; else who="$who --clear-groups"; fi
	shift 3
	setpriv $who "$@"
}
get() { # CODE as seen by USER GROUP GROUPS, of PATH
	as "$1" "$2" "$3" curl -s -m 5 -o "$T/run/got" -w '%{http_code}' \
	    --unix-socket "$SOCKET" "http://d${4:-/healthz}"
}
chmod 777 "$T/run"
with_admin "group: games"
launch
wait_for $SLOW answers /healthz 200
is "the socket is given to admin.group" "$(stat -c '%a %G' "$SOCKET")" "660 games"
is "a member of it may ask" "$(get nobody nogroup games)" 200
is "so may one whose first group it is" "$(get nobody games '')" 200
is "others cannot connect" "$(get nobody nogroup '')" 000
chmod 666 "$SOCKET"
is "and if they could, they would be refused" "$(rm -f "$T/run/got"
    get nobody nogroup '')" 403
is "with what they lack" "$(json "$(cat "$T/run/got")" message | cut -d: -f2-)" \
    " root, or a member of the group admin.group"
passes "which is logged" wait_for $SLOW grep -q \
    'level=warn event=admin_refused.*uid=65534 path=/healthz has=none' "$T/daemon.log"
stop_daemon

# a reader is not an operator
reveal="/v1/memory/reveal?entry=1&mode=full"
with_admin "group: games, operator_group: staff"
launch
wait_for $SLOW answers /readyz 200
for path in /metrics /v1/status /v1/memory/stats /v1/memory/entries \
    /v1/memory/tree "/v1/memory/search?q=x"; do
	is "a reader may ask for $path" "$(get nobody games '' "$path")" 200
done
rm -f "$T/run/got"
is "but see no body" "$(get nobody games '' "$reveal")" 403
like "and is told what is lacking" \
    "$(json "$(cat "$T/run/got")" message)" "*admin.operator_group*"
is "an operator comes as far as the entry, which is not there" \
    "$(get nobody games staff "$reveal")" 404
passes "the refusal is logged" wait_for $SLOW grep -q \
    'event=admin_refused.*uid=65534 path=/v1/memory/reveal' "$T/daemon.log"
stop_daemon

# as another user, whose plugins are he
chown -R nobody "$T/tmp" "$T/run"
mkdir "$T/sock"
chown nobody "$T/sock"
with_admin
sed -i "s|socket: [^,}]*|socket: $T/sock/a|" "$T/outboxd.yaml"
SOCKET=$T/sock/a
: >"$T/daemon.log"
chmod 666 "$T/daemon.log"
as nobody nogroup "" "$OUTBOXD" -c "$T/outboxd.yaml" >>"$T/daemon.log" 2>&1 &
DAEMON=$!
DAEMONS="$DAEMONS $DAEMON"
passes "root may ask a daemon of another user" wait_for $SLOW answers /readyz 200
is "that user may not, for its plugins are he" "$(get nobody nogroup '')" 403
with_admin "group: no-such-group"
stop_daemon
launch
passes "a group that is not there is an error, and all else goes on" \
    wait_for $SLOW grep -q \
    "admin_failed.*admin.group: there is no group 'no-such-group'" "$T/daemon.log"
