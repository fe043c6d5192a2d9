#!/bin/sh
# Looking into the memory of a daemon that works: what is shown, what is not,
# and that it makes no difference.
. "$(dirname "$0")/daemon-lib.sh"
. "$(dirname "$0")/admin-lib.sh"
if ! command -v curl >/dev/null; then
	echo "# skipped: curl is missing"
	exit 0
fi
begin_daemon memory
memory() {
	ctl -c "$T/outboxd.yaml" "$@"
}
with_admin
exits "without a daemon memory is 69" 69 memory memory stats
like "and what to do is said" "$ERR" "*remedy: systemctl start outboxd*"

handler slow "concurrency: 40" "deadline: 5m" <<'EOT'
cat >/dev/null
while [ ! -e "$T/go" ]; do sleep 0.2; done
EOT
launch
wait_for $SLOW answers /readyz 200
exits "an idle daemon has no entries" 0 memory memory entries
is "and says so" "$OUT" "(none)"

publish slow 11 '{"secret": "swordfish"}' >/dev/null
long=$(sql "SELECT outbox.publish('on.slow', 'v1', json_build_object('s',
    repeat('é', 10000)))")
huge=$(sql "SELECT outbox.publish('on.slow', 'v1', json_build_object('s',
    repeat('x', 262144)))")
held() { # COUNT
	[ "$(json "$(ask /v1/memory/stats)" entries)" = "$1" ]
}
passes "what is claimed is on the bus" wait_for $SLOW held 13

# ---- over the socket ----
is "stats have the budget" \
    "$(json "$(ask /v1/memory/stats)" event_bus_resources,max_items)" \
    "$(json "$(ask /v1/status)" bus,max_items)"
cursor=0 seen='' pages=0
while [ -n "$cursor" ] && [ $pages -lt 20 ]; do
	page=$(ask "/v1/memory/entries?limit=5&cursor=$cursor")
	seen="$seen $(echo "$page" | grep -o '"entry":[0-9]*' | cut -d: -f2)"
	cursor=$(json "$page" next_cursor)
	pages=$((pages + 1))
done
is "13 entries are 3 pages of 5" $pages 3
is "and each is on one of them" "$(echo $seen | tr ' ' '\n' | sort -nu |
    wc -l) $(echo $seen | wc -w)" "13 13"
page=$(ask "/v1/memory/entries?max_bytes=1024")
is "a page of 1 KiB is cut" "$(json "$page" truncated_by_byte_limit)" true
is "and is no larger" "$([ ${#page} -le 1024 ] && echo yes)" yes
is "one that is not does not say so" \
    "$(ask /v1/memory/entries | grep -c truncated_by)" 0

tree=$(ask "/v1/memory/tree")
is "the tree begins with subscribers" "$(json "$tree" nodes,0,name) $(
    json "$tree" nodes,0,entries)" "test.slow.run 13"
target=$(json "$(ask "/v1/memory/tree?path=test.slow.run")" nodes,0,path)
is "goes on with targets" "${target%/*}" test.slow.run
is "and ends with events" "$(json "$(ask "/v1/memory/tree?path=$target&limit=200")" \
    nodes | grep -o '"leaf":true' | wc -l)" 13
found() { # QUERY: the numbers found
	ask "/v1/memory/search?$1" | grep -o '"entry":[0-9]*' | cut -d: -f2
}
is "a search finds an event" "$(found "q=$huge" | wc -l)" 1
is "and a contract" "$(found "q=on.slow@v1" | wc -l)" 13
is "but nothing by its body" "$(found "q=swordfish")$(found "q=secret")" ""

# ---- what is asked badly ----
bad() { # QUERY PARAMETER
	local answer
	answer=$(ask "/v1/memory/$1")
	is "$1 is 400" "$(code "/v1/memory/$1") $(json "$answer" error)" \
	    "400 bad_parameter"
	like "and $2 is named" "$(json "$answer" message)" "*$2*"
}
bad "entries?limit=0" limit
bad "entries?limit=201" limit
bad "entries?limit=" limit
bad "entries?max_bytes=262145" max_bytes
bad "entries?cursor=-1" cursor
bad "entries?limmit=5" limmit
bad "search" q
bad "search?state=done" state
bad "reveal" entry
bad "reveal?entry=1&mode=all" mode

# ---- bodies ----
n=$(found "q=$long")
answer=$(ask "/v1/memory/reveal?entry=$n&mode=preview")
is "a preview is cut" "$(json "$answer" truncated)" true
bytes=$(json "$answer" value_bytes)
is "at 8 KiB, between characters" \
    "$([ "$bytes" -gt 8188 ] && [ "$bytes" -le 8192 ] && echo yes)" yes
is "so that it is text" "$(json "$answer" value | iconv -f utf-8 -t utf-16 \
    >/dev/null && echo yes)" yes
is "in full it is all there" "$(json "$(ask \
    "/v1/memory/reveal?entry=$n&mode=full")" value | grep -o é | wc -l)" 10000
n=$(found "q=$huge")
is "one that is too large is refused" "$(json "$(ask \
    "/v1/memory/reveal?entry=$n&mode=full")" error)" value_too_large
is "its preview is not" "$(json "$(ask \
    "/v1/memory/reveal?entry=$n&mode=preview")" value_bytes)" 8192
is "by default there is no body" \
    "$(ask "/v1/memory/reveal?entry=$n" | grep -c '"value')" 0
passes "each is logged, with who and what" wait_for $SLOW grep -q \
    "event=memory_reveal .*uid=$(id -u) .*entry=$n event_id=$huge mode=preview" \
    "$T/daemon.log"
is "and no body is" "$(logged swordfish)" 0
is "nor is one in a list" "$(for q in stats entries tree "search?q=slow"; do
	ask "/v1/memory/$q"
done | grep -c swordfish)" 0

# ---- outboxctl ----
exits "outboxctl memory stats" 0 memory memory stats
like "tells of the budget" "$OUT" "*entries *13*max_items *"
exits "memory entries" 0 memory memory entries --limit 5
is "has a line each" "$(echo "$OUT" | wc -l)" 6
like "and the next cursor" "$ERR" "there is more: --cursor [0-9]*"
exits "memory tree" 0 memory memory tree
like "counts" "$OUT" "name *entries*test.slow.run *13 *"
exits "memory search" 0 memory memory search "$huge"
like "finds" "$OUT" "*/$huge"
exits "memory search --json" 0 memory --json memory search --state in_flight
is "is the daemon's answer" "$(json "$OUT" entries,0,state)" in_flight
n=$(found "q=on.slow" | head -n 1)
exits "memory reveal" 0 memory memory reveal "$n"
is "shows no body" "$(echo "$OUT" | grep -c swordfish)" 0
exits "unless it is asked to" 0 memory memory reveal "$n" --mode full
like "and then does" "$OUT" '*"swordfish"*'
exits "too large is 1" 1 memory memory reveal "$(found "q=$huge")" --mode full
like "and says so" "$ERR" "*value_too_large*"
exits "an entry that is not there is 1" 1 memory memory reveal 999999
exits "a mode that is none is 64" 64 memory memory reveal "$n" --mode all

if [ "$(id -u)" -eq 0 ]; then
	chmod 666 "$SOCKET"
	is "who has no right is refused" "$(setpriv --reuid=nobody --regid=nogroup \
	    --clear-groups curl -s -m 5 -o /dev/null -w '%{http_code}' \
	    --unix-socket "$SOCKET" "http://d/v1/memory/reveal?entry=$n")" 403
fi

# ---- no difference ----
is "nothing was consumed" "$(json "$(ask /v1/memory/stats)" entries)" 13
touch "$T/go"
passes "all is delivered" delivered slow 13
is "once" "$(sql "SELECT count(*) FROM outbox.deliveries
    WHERE attempt_count <> 1")" 0
passes "and nothing is left" wait_for $SLOW held 0
stop_daemon
exits "with the daemon gone it is 69 again" 69 memory memory entries
sed -i '/^admin:/d' "$T/outboxd.yaml"
echo 'admin: {socket: ""}' >>"$T/outboxd.yaml"
exits "so it is without a socket" 69 memory memory tree
like "which is said" "$ERR" "*remedy: give admin.socket a path*"
