#!/bin/sh
# From a commit to a handler and back: what is delivered, to whom, with what.
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon deliver
SECRET=hush_$$ PGAPPNAME=secret_$$
export SECRET PGAPPNAME

CONTRACT=shop.ordered@v1 handler good <<'SH'
cat >"$T/run/good.$OUTBOX_EVENT_ID"
SH
CONTRACT=shop.ordered@v1 handler bad 'retry: {base: 50ms, cap: 100ms, max_attempts: 9999}' <<'SH'
[ -e "$T/mended" ] || { echo "no route" >&2; exit 1; }
SH
handler body <<'SH'
cat >"$T/run/body.$(echo "$OUTBOX_IDEMPOTENCY_KEY" | cut -d: -f1)"
SH
handler litter <<'SH'
pwd >"$T/run/pwd"
stat -c '%a' . >"$T/run/mode"
mkdir -p a/b/c && : >a/b/c/file && : >.hidden && chmod 0 a/b
SH
COMMAND="bin/handle, $T/run/who, two words" \
    BINARY=$BUILD/tests/plugins/inspect handler who 'deadline: 7s' \
    'retry: {max_attempts: 9}'
echo 'plugins: {store: '"$STORE"', environment: {COLOUR: red}}' >"$T/more"
sed -i '/^plugins:/d' "$T/outboxd.yaml"
cat "$T/more" >>"$T/outboxd.yaml"
echo 'dispatch: {poll_interval: 5s, concurrency: 8}' >>"$T/outboxd.yaml"
start_daemon "$T/outboxd.yaml"

# ---- commit and rollback ----
sql "CREATE TABLE t (x int CONSTRAINT late CHECK (x > 0),
    CONSTRAINT once UNIQUE (x) DEFERRABLE INITIALLY DEFERRED)"
sql "BEGIN; SELECT outbox.publish('shop.ordered', 'v1', '{\"n\": 0}'); ROLLBACK" \
    >/dev/null
psql -Xq -c "BEGIN" -c "SELECT outbox.publish('shop.ordered', 'v1', '{\"n\": 1}')" \
    -c "INSERT INTO t VALUES (1), (1)" -c "COMMIT" >/dev/null 2>&1
e=$(sql "BEGIN; INSERT INTO t VALUES (1);
    SELECT outbox.publish('shop.ordered', 'v1', '{\"n\": 2}'); COMMIT")
passes "what is committed is delivered" delivered good 1
is "and nothing else: not what was rolled back, nor what failed at COMMIT" \
    "$(sql "SELECT count(*) FROM outbox.facts") $(ls "$T/run" | grep -c good)" \
    "1 1"

# ---- one fact, two subscribers ----
passes "the other subscriber fails and is retried meanwhile" wait_for $SLOW \
    sql_is t "SELECT attempt_count >= 2 AND last_error LIKE '%no route%'
	FROM outbox.deliveries WHERE subscriber_id = 'test.bad.run'"
is "the first one's receipt stays" \
    "$(sql "SELECT count(*) FROM outbox.receipt")" 1
is "and the fact is not delivered" "$(sql "SELECT delivered FROM outbox.facts")" f
: >"$T/mended"
passes "mended, the other is delivered" delivered bad 1
is "the first was not run again" "$(logged 'event=settled.*test.good.run')" 1
is "and now the fact is delivered" "$(sql "SELECT delivered FROM outbox.facts")" t
is "the last error is cleared by the ACK" "$(delivery bad "coalesce(last_error, '-')")" -

# ---- bodies, byte for byte ----
i=0
while read -r body; do
	i=$((i + 1))
	body=$(printf '%b' "$body")
	e=$(psql -XAtq -v ON_ERROR_STOP=1 -v body="$body" <<-'SQL'
		SELECT outbox.publish('on.body', 'v1', :'body'::json, 'default', 's"\ü',
		    headers => '{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}');
	SQL
	)
	delivered body $i
	got=$(cat "$T/run/body.$e")
	is "the body is the very text that was published: $(echo $body)" \
	    "${got##*,\"data\":}" "$body}"
done <<'BODIES'
{"a":1,\n "a" :2}
{"n":123456789012345678901234567890,"x":1.10,"e":1E+2}
"\\u0001 \\ud83d\\ude00 \\\\u0000 \\/"
{"b": [ ]\n}
null
BODIES
is "a NUL escape, which nobody can hold, is refused at publish" "$(psql -XAtq \
    -v VERBOSITY=sqlstate -c \
    "SELECT outbox.publish('on.body', 'v1', '\"\\u0000\"'::json)" 2>&1 |
    sed 's/.* //')" OB004
is "an event is one JSON object with the attributes of CloudEvents" \
    "$(json "$(tail -n +1 "$T/run/body.$e")" specversion) $(
	json "$got" id | sed "s/$e/same/") $(json "$got" type) $(
	json "$got" subject) $(json "$got" source) $(json "$got" traceparent)" \
    '1.0 same on.body s"\ü outbox/default 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

# 5 MB through the shell's limits: the server makes it
sql "SELECT outbox.publish('on.body', 'v1', to_json(repeat('x', 5000000)))" \
    >"$T/id"
delivered body $((i + 1))
is "a body of 5 MB arrives whole" \
    "$(tail -c 5000003 "$T/run/body.$(cat "$T/id")" | tr -d x)" '""}'

# ---- what a handler is given ----
e=$(publish who)
delivered who 1
dir=$(sed -n 's/^cwd //p' "$T/run/who")
is "a handler is given this and nothing else" \
    "$(sed "s,$dir,DIR,; s/INPUT_BYTES=[1-9][0-9]*/INPUT_BYTES=N/" "$T/run/who" |
	sort)" \
    "arg two words
core 0
cwd DIR
env COLOUR=red
env HOME=DIR
env LANG=C.UTF-8
env OUTBOX_ATTEMPT=1
env OUTBOX_CONTRACT=on.who@v1
env OUTBOX_EVENT_ID=$e
env OUTBOX_HANDLER=run
env OUTBOX_HANDLER_VERSION=1
env OUTBOX_IDEMPOTENCY_KEY=$e:test.who.run:1
env OUTBOX_INPUT_BYTES=N
env OUTBOX_MAX_ATTEMPTS=9
env OUTBOX_PROTOCOL=exec/1
env OUTBOX_RESULT_FD=3
env OUTBOX_SUBSCRIBER=test.who.run
env OUTBOX_TIMEOUT_MS=7000
env OUTBOX_WORKSPACE=default
env PATH=/usr/local/bin:/usr/bin:/bin
env TMPDIR=DIR
env TZ=${TZ:-UTC}
fd 0 pipe
fd 1 pipe
fd 2 pipe
fd 3 pipe
leads 1 1
no_new_privs 1"
publish litter >/dev/null
delivered litter 1
is "its directory is private" "$(cat "$T/run/mode")" 700
passes "and removed with all that it left there" wait_for $SLOW \
    test ! -e "$(cat "$T/run/pwd")"

# ---- in time ----
# poll_interval is 5 s: only NOTIFY can be this quick.
handler quick <<'SH'
date +%s%3N >"$T/run/quick.$OUTBOX_EVENT_ID"
SH
publish quick >/dev/null
delivered quick 1
worst=0
for i in 1 2 3 4 5 6; do
	# quiet for a moment, so that it sleeps
	wait_for $SLOW sql_is t "SELECT count(*) > 0 FROM pg_locks
	    WHERE locktype = 'advisory' AND classid::bigint = outbox._wake_class()"
	before=$(now_ms)
	e=$(publish quick)
	wait_for $SLOW test -s "$T/run/quick.$e"
	took=$(($(cat "$T/run/quick.$e") - before))
	[ $took -le $worst ] || worst=$took
done
is "a sleeping daemon is woken by the commit, not by its poll" \
    "$([ $worst -lt 2500 ] && echo woken || echo "$worst ms")" woken

# ---- a publisher that commits late ----
handler late <<'SH'
date +%s%3N >"$T/run/late.$OUTBOX_EVENT_ID"
SH
mkfifo "$T/in"
psql -XAtq <"$T/in" >"$T/late.out" 2>&1 &
exec 9>"$T/in"
echo "BEGIN; SELECT outbox.publish('on.late', 'v1', '{}');" >&9
wait_for $SLOW test -s "$T/late.out"
publish late 20 >/dev/null
delivered late 20
is "facts of later ids pass a transaction that is still open" $? 0
echo "COMMIT; SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;" >&9
exec 9>&-
delivered late 21
is "and what it commits then is delivered" $? 0
took=$(($(cat "$T/run/late.$(head -1 "$T/late.out")") - $(tail -1 "$T/late.out")))
is "within about one sweep" "$([ $took -lt 4000 ] && echo soon || echo "$took ms")" soon

stop_daemon TERM
is "the daemon stops with 0" $? 0
is "nothing of its environment is in its log" "$(logged "$SECRET")" 0
