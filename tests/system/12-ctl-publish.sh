#!/bin/sh
# contract, publish, event, graph, subscriber, grant: a business's morning.
. "$(dirname "$0")/lib.sh"
begin ctl-publish
ctl schema install >/dev/null 2>&1
sql "ALTER DATABASE $PGDATABASE
    SET default_transaction_isolation = 'repeatable read'"

# contracts
exits "contract add is 0" 0 ctl --json contract add shop.ordered@v1
is "and answers added" "$(json "$OUT" answer)" added
exits "the same again is 0" 0 ctl --json contract add shop.ordered@v1
is "and answers already" "$(json "$OUT" answer)" already
echo '{"type": "object", "required": ["n"]}' >"$T/schema.json"
exits "the same version with a schema is 1" 1 \
    ctl contract add shop.ordered@v1 --schema "$T/schema.json"
exits "another version with a schema is 0" 0 \
    ctl contract add shop.ordered@v2 --schema "$T/schema.json"
echo '{"type": "object",}' >"$T/broken.json"
exits "a schema that is not JSON is 65" 65 \
    ctl contract add shop.x@v1 --schema "$T/broken.json"
echo '{"type": "thing"}' >"$T/odd.json"
exits "a schema outside the subset is 65" 65 \
    ctl contract add shop.x@v1 --schema "$T/odd.json"
exits "a schema file that is not there is 65" 65 \
    ctl contract add shop.x@v1 --schema "$T/none"
exits "contract list is 0" 0 ctl --json contract list
is "with one object a line" "$(echo "$OUT" | wc -l)" 2
is "each of them JSON" "$(json "$(echo "$OUT" | tail -1)" body_schema,type)" \
    object
exits "retire of an unknown contract is 1" 1 ctl contract retire shop.x@v1

# nobody subscribed
exits "publish that nobody subscribed to is 0" 0 \
    ctl --json publish shop.ordered@v1 --body "$T/schema.json"
is "with event_id null" "$OUT" '{"event_id":null}'
is "and writes nothing" "$(sql "SELECT count(*) FROM outbox.facts")" 0
exits "an unknown contract is 1" 1 \
    ctl --json publish shop.y@v1 --body "$T/schema.json"
is "with its code" "$(json "$ERR" error,code)" OB002

# a subscriber
plugin_make "$T/p" acme.mail 1.0 send shop.ordered@v1 <<-'SH'
	#!/bin/sh
	cat >/dev/null
SH
ctl plugin install "$T/p" --store "$STORE" >/dev/null
exits "graph show before any is 1" 1 ctl graph show
exits "activate without grants is 1" 1 ctl --json plugin activate acme.mail@1.0
is "with its code" "$(json "$ERR" error,code)" OB033
like "and names what is missing" "$ERR" \
    "*acme.mail.send event.subscribe shop.ordered@v1*"
exits "grant add is 0" 0 ctl --json grant add \
    acme.mail.send event.subscribe shop.ordered@v1
is "and answers granted" "$(json "$OUT" answer)" granted
exits "the same again is 0" 0 ctl --json grant add \
    acme.mail.send event.subscribe shop.ordered@v1
is "and answers already" "$(json "$OUT" answer)" already
exits "a grant to nobody is 1" 1 ctl grant add \
    acme.mail.read event.subscribe shop.ordered@v1
exits "an odd permission is 65" 65 ctl grant add \
    acme.mail.send event.eat shop.ordered@v1
exits "activate is 0 then" 0 ctl --json plugin activate acme.mail@1.0
is "and answers activated" "$(json "$OUT" answer)" activated
exits "grant list is 0" 0 ctl --json grant list
is "and tells the resource" "$(json "$OUT" resource)" shop.ordered@v1
exits "graph show is 0" 0 ctl --json graph show
is "and tells the workspace" "$(json "$OUT" workspace)" default
is "and the subscriber" "$(json "$OUT" document,contributions,0,subscriber)" \
    acme.mail.send
exits "the graph of another workspace is that of *" 0 \
    ctl --json graph show --workspace moon
is "and says so" "$(json "$OUT" graph_of)" "*"

# publish
id=018f2c1e-7b1a-4c55-9a51-3d1b7a0c9e11
printf '{"a": 1,\n "a": 123456789012345678901234567890}' >"$T/body.json"
exits "publish with every option is 0" 0 ctl --json publish shop.ordered@v1 \
    --subject o-1 --event-id $id --occurred-at 2026-12-02T03:04:05.678Z \
    --available-at 2999-01-01T00:00Z --header correlationid=c1 \
    --header=traceparent=00-1-2-01 --body "$T/body.json"
is "and tells the id" "$(json "$OUT" event_id)" $id
exits "the same again is 0" 0 ctl --json publish shop.ordered@v1 \
    --subject o-1 --event-id $id --body "$T/body.json"
exits "the same id with another subject is 1" 1 ctl --json publish \
    shop.ordered@v1 --event-id $id --subject o-2 --body "$T/body.json"
is "with its code" "$(json "$ERR" error,code)" OB001
published=$(echo '{"from": "stdin"}' | ctl publish shop.ordered@v1)
is "a body may come from standard input" \
    "$(sql "SELECT outbox.event_body('$published')")" '{"from": "stdin"}'
exits "event show is 0" 0 ctl --json event show $id
is "time is the database's, in UTC" "$(json "$OUT" occurred_at)" \
    2026-12-02T03:04:05.678+00:00
is "headers are kept" "$(json "$OUT" headers,correlationid)" c1
is "deliveries are told" "$(json "$OUT" deliveries,0,subscriber_id)" \
    acme.mail.send
is "the body is not" "$(json "$OUT" body)" ""
exits "unless asked for" 0 ctl event show $id --body
like "and then to the letter" "$OUT" "*$(cat "$T/body.json")*"
exits "in JSON too" 0 ctl --json event show $id --body
is "on one line" "$(echo "$OUT" | wc -l)" 1
like "and numbers stay exact" "$OUT" "*123456789012345678901234567890*"
exits "an unknown event is 1" 1 ctl event show \
    018f2c1e-7b1a-4c55-9a51-3d1b7a0c9eff
exits "event list is 0" 0 ctl --json event list --contract shop.ordered \
    --workspace default --subject o-1 --since 1h
is "and filters" "$(json "$OUT" event_id)" $id
exits "--since takes a time too" 0 ctl --json event list --since 2999-01-01
is "of the future: nothing" "$OUT" ""
exits "a time that is none is 65" 65 ctl event list --since yesterdayish
exits "--limit holds" 0 ctl --json event list --limit 1
is "the newest first" "$(json "$OUT" event_id)" "$published"

# what is refused
printf '{"a":' >"$T/bad"
exits "a body that is not JSON is 65" 65 ctl publish shop.ordered@v1 --body "$T/bad"
printf '"a\0b"' >"$T/bad"
exits "a body with a NUL byte is 65" 65 ctl publish shop.ordered@v1 --body "$T/bad"
printf '"\377"' >"$T/bad"
exits "a body that is not UTF-8 is 65" 65 ctl publish shop.ordered@v1 --body "$T/bad"
printf '"\\u0000"' >"$T/bad"
exits "a body that nobody can hold is 65" 65 ctl --json publish shop.ordered@v1 --body "$T/bad"
is "with its code" "$(json "$ERR" error,code)" OB004
exits "a header that is no pair is 64" 64 ctl publish shop.ordered@v1 --header a
exits "a header given twice is 64" 64 ctl publish shop.ordered@v1 \
    --header a=1 --header a=2
exits "a reserved header is 65" 65 ctl publish shop.ordered@v1 \
    --header subject=1 --body "$T/schema.json"
exits "a broken event id is 65" 65 ctl publish shop.ordered@v1 \
    --event-id 1 --body "$T/schema.json"
exits "a blank workspace is 65" 65 ctl publish shop.ordered@v1 \
    --workspace " " --body "$T/schema.json"
exits "the workspace * is 65, for only a grant may say it" 65 \
    ctl publish shop.ordered@v1 --workspace '*' --body "$T/schema.json"
ctl contract retire shop.ordered@v1 >/dev/null
exits "a retired contract is 1" 1 ctl --json publish shop.ordered@v1 \
    --body "$T/schema.json"
is "with its code" "$(json "$ERR" error,code)" OB003

# subscribers
exits "subscriber pause is 0" 0 ctl --json subscriber pause acme.mail.send \
    --reason "too loud"
is "and answers paused" "$(json "$OUT" answer)" paused
exits "again is 0" 0 ctl --json subscriber pause acme.mail.send --reason x
is "and answers already" "$(json "$OUT" answer)" already
exits "subscriber list is 0" 0 ctl --json subscriber list
is "and tells why" "$(json "$OUT" pause_reason)" "too loud"
exits "explain tells why" 0 ctl delivery explain "$published" acme.mail.send
like "with the way out" "$OUT" "*outboxctl subscriber resume acme.mail.send*"
exits "subscriber resume is 0" 0 ctl subscriber resume acme.mail.send
exits "an unknown subscriber is 1" 1 ctl subscriber resume acme.mail.x

# revoke
exits "grant revoke is 0" 0 ctl --json grant revoke \
    acme.mail.send event.subscribe shop.ordered@v1
is "and tells how many" "$(json "$OUT" revoked)" 1
exits "again is 1" 1 ctl grant revoke \
    acme.mail.send event.subscribe shop.ordered@v1
exits "grant list --all shows it still" 0 ctl --json grant list --all \
    --subscriber acme.mail.send
is "with who revoked it" "$(json "$OUT" revoked_by)" postgres
exits "explain names the lost grant" 0 ctl --json delivery explain \
    "$published" acme.mail.send
is "as paused" "$(json "$OUT" reasons,0,code)" paused
like "and the grant to give" "$(json "$OUT" reasons,0,remedy)" \
    "outboxctl grant add acme.mail.send event.subscribe shop.ordered@v1 *"

exits "tables are for people" 0 ctl event list
like "and have a head" "$OUT" "event_id *contract_id *"
