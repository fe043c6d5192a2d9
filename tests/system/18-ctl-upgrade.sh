#!/bin/sh
# From one version of the schema to the next, by an outboxctl that is newer by
# two files: one outside a transaction, one inside.
. "$(dirname "$0")/lib.sh"
begin ctl-upgrade

config() { # NAME: of config.mk
	sed -n "s/^$1 *= *//p" "$ROOT/config.mk"
}

# The same objects with other SQL inside.
build_newer() {
	local san=
	case $BUILD in *asan*) san=-fsanitize=address,undefined ;; esac
	cp -r "$ROOT/sql" "$ROOT/src/ctl/embed" "$T" || return
	cat >"$T/sql/schema/0802_index.sql" <<-'SQL'
		-- no-transaction
		SET lock_timeout = 0;
		DROP INDEX CONCURRENTLY IF EXISTS outbox.fact_later;
		CREATE INDEX CONCURRENTLY fact_later
		    ON outbox.fact (workspace);
	SQL
	cat >"$T/sql/schema/0803_later.sql" <<-'SQL'
		CREATE TABLE outbox.later (id bigint PRIMARY KEY);
		ALTER TABLE outbox.fact ADD COLUMN later text;
	SQL
	cat >"$T/sql/function/95_later.sql" <<-'SQL'
		CREATE OR REPLACE FUNCTION outbox.later() RETURNS bigint
		LANGUAGE sql STABLE SECURITY DEFINER
		SET search_path = pg_catalog, outbox, pg_temp
		AS 'SELECT count(*) FROM outbox.later';
	SQL
	(cd "$T" && ./embed sql sql/*.sql sql/*/*.sql >files.c) || return
	ar rcs "$T/shared.a" $(ls "$BUILD"/obj/*.o | grep -v /main.o) || return
	${CC:-cc} $san -I"$ROOT/src" -o "$T/newer" "$T/files.c" \
	    "$BUILD"/obj/ctl/*.o "$T/shared.a" "$BUILD/gen/sdk_files.o" \
	    $(config PQ_LIBS) $(config EVENT_LIBS) \
	    $(config CJSON_LIBS) $(config YAML_LIBS) $(config CRYPTO_LIBS) \
	    $(config LIBS) -lm
}
build_newer >"$T/build.log" 2>&1 || { cat "$T/build.log"; exit 1; }

newer() {
	"$T/newer" "$@"
}

ctl schema install >/dev/null 2>&1
ctl contract add shop.ordered@v1 >/dev/null
plugin_make "$T/p" acme.mail 1 send shop.ordered@v1 </dev/null
ctl plugin install "$T/p" --store "$STORE" >/dev/null
ctl plugin activate acme.mail@1 --grant-all >/dev/null
echo '{}' | ctl publish shop.ordered@v1 >/dev/null

exits "the newer finds the schema older" 1 newer --json schema check
like "by the files that are missing" "$(json "$OUT" findings)" \
    '*file_missing*0802_index.sql*file_missing*0803_later.sql*functions_missing*'
newer --json status >"$T/out" 2>/dev/null
like "and its status says so" "$(cat "$T/out")" "*schema_older*"
exits "the newer does not install over it" 1 newer schema install
exits "a dry run tells the steps" 0 newer --json schema upgrade --dry-run
is "in their order" "$(json "$OUT" steps)" \
    '["roles","0802_index.sql","0803_later.sql","functions"]'

# a publisher in the middle of a transaction, which ends later
psql -Xq >/dev/null <<-'SQL' &
	BEGIN;
	SELECT outbox.publish('shop.ordered', 'v1', '{}');
	SELECT pg_sleep(5);
	COMMIT;
SQL
publisher=$!
wait_for 10 sql_is t "SELECT count(*) > 0 FROM pg_stat_activity
    WHERE datname = current_database() AND query LIKE '%pg_sleep%'
      AND pid <> pg_backend_pid()"
newer schema upgrade >"$T/upgrade" 2>&1 &
upgrade=$!
slow=0
while kill -0 $publisher 2>/dev/null; do
	begun=$(date +%s)
	echo '{}' | ctl publish shop.ordered@v1 >/dev/null || slow=99
	took=$(($(date +%s) - begun))
	[ "$took" -le "$slow" ] || slow=$took
done
wait $publisher
is "a publisher in the way commits" $? 0
wait $upgrade
is "the upgrade comes to its end" $? 0
[ "$slow" -le 4 ] && ok "and no other publisher waited for long" ||
    not_ok "and no other publisher waited for long" "one waited $slow s" \
	"$(cat "$T/upgrade")"
exits "the newer accepts it" 0 newer schema check
is "with its version" "$(sql "SELECT outbox.schema_version()")" 803
is "the index is there, whole and the owner's" "$(sql "
    SELECT i.indisvalid, pg_get_userbyid(c.relowner) FROM pg_index i
      JOIN pg_class c ON c.oid = i.indexrelid
     WHERE c.relname = 'fact_later'")" "t|outbox_owner"
exits "the same again is 0" 0 newer schema upgrade
exits "the older finds it newer" 1 ctl --json schema check
like "by the files" "$(json "$OUT" findings)" "*file_unknown*"
exits "and does not touch it" 78 ctl schema upgrade
echo "{}" >"$T/body"
exits "but publishes still" 0 ctl publish shop.ordered@v1 --body "$T/body"
exits "and shows" 0 ctl delivery list

createdb "${PGDATABASE}_p"
newer schema print --roles >"$T/all.sql"
exits "the newer's printed SQL runs through psql" 0 \
    psql -Xq -v ON_ERROR_STOP=1 -d "${PGDATABASE}_p" -f "$T/all.sql"
exits "and the newer accepts that" 0 env PGDATABASE="${PGDATABASE}_p" \
    "$T/newer" schema check
dropdb "${PGDATABASE}_p"
