#!/bin/sh
# What a login with one role of outboxd may do through outboxctl, and what not.
. "$(dirname "$0")/lib.sh"
begin ctl-roles
ctl schema install >/dev/null 2>&1
op=${PGDATABASE}_op view=${PGDATABASE}_view pub=${PGDATABASE}_pub
psql -Xq -c "CREATE ROLE $op LOGIN IN ROLE outbox_operator" \
    -c "CREATE ROLE $view LOGIN IN ROLE outbox_viewer" \
    -c "CREATE ROLE $pub LOGIN IN ROLE outbox_publisher"
# What a hostile login would put in the way.
psql -Xq -c "CREATE SCHEMA trap" -c "GRANT USAGE ON SCHEMA trap TO PUBLIC" \
    -c "CREATE FUNCTION trap.now() RETURNS timestamptz LANGUAGE plpgsql
	AS 'BEGIN RAISE EXCEPTION ''trapped''; END'" \
    -c "CREATE FUNCTION trap.count(bigint) RETURNS int LANGUAGE plpgsql
	AS 'BEGIN RAISE EXCEPTION ''trapped''; END'" \
    -c "ALTER DATABASE $PGDATABASE SET search_path = trap, pg_catalog, outbox"

as() { # ROLE ARGUMENTS...
	local role=$1
	shift
	PGUSER=$role ctl "$@"
}

plugin_make "$T/p" acme.mail 1 send shop.ordered@v1 </dev/null
S=acme.mail.send
id=018f2c1e-7b1a-4c55-9a51-3d1b7a0c9e11
echo '{}' >"$T/body"

exits "an operator declares contracts" 0 as "$op" contract add shop.ordered@v1
exits "installs plugins" 0 as "$op" plugin install "$T/p" --store "$STORE"
exits "grants" 0 as "$op" grant add $S event.subscribe shop.ordered@v1
exits "activates" 0 as "$op" plugin activate acme.mail@1
exits "publishes" 0 as "$op" publish shop.ordered@v1 --body "$T/body" --event-id $id
exits "sees bodies" 0 as "$op" event show $id --body
for change in pause resume retry; do
	exits "may $change a delivery" 0 as "$op" delivery $change $id $S
done
exits "may change many" 0 as "$op" delivery pause --all --subscriber $S
exits "pauses subscribers" 0 as "$op" subscriber pause $S --reason x
exits "resumes them" 0 as "$op" subscriber resume $S
exits "releases claims" 0 as "$op" delivery release \
    --worker 11111111-1111-4111-8111-111111111111
exits "checks the schema" 0 as "$op" schema check
exits "but does not upgrade it" 77 as "$op" schema upgrade
is "and who did it is known" "$(sql "SELECT DISTINCT who FROM outbox.audit
    WHERE action IN ('pause', 'resume', 'plugin_install')")" "$op"

for look in "contract list" "plugin list" "plugin show acme.mail" "grant list" \
    "graph show" "event list" "event show $id" "delivery list" \
    "delivery show $id $S" "delivery explain $id $S" "subscriber list" \
    "schema check"; do
	exits "a viewer may: $look" 0 as "$view" --json $look
done
exits "a viewer sees the status" 69 as "$view" --json status
like "all of it" "$OUT" '*"lanes":[[]{*'
for change in "contract add a.b@v1" "contract retire shop.ordered@v1" \
    "plugin activate acme.mail@1" "plugin deactivate acme.mail" \
    "plugin install $T/p --store $STORE" "plugin remove acme.mail@1 --store $STORE" \
    "grant add $S event.subscribe shop.ordered@v1" \
    "grant revoke $S event.subscribe shop.ordered@v1" \
    "publish shop.ordered@v1 --body $T/body" "event show $id --body" \
    "delivery pause $id $S" "delivery resume $id $S" \
    "delivery discard $id $S --reason x" "subscriber pause $S --reason x" \
    "delivery release --worker $id"; do
	exits "a viewer may not: $change" 77 as "$view" --json $change
	is "by the database's word" "$(json "$ERR" error,code)" 42501
done
is "the store is as it was" "$(ls "$STORE" | wc -l)" 1

exits "a publisher publishes" 0 as "$pub" publish shop.ordered@v1 --body "$T/body"
exits "and sees nothing" 77 as "$pub" event list
exits "nor changes anything" 77 as "$pub" delivery pause --all --subscriber $S

psql -Xq -c "ALTER DATABASE $PGDATABASE RESET search_path"
for role in $op $view $pub; do
	psql -Xq -c "DROP ROLE $role"
done
