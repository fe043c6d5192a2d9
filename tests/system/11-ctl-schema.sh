#!/bin/sh
# The installer: fresh, repeated, upgraded, drifted, without rights.
. "$(dirname "$0")/lib.sh"
begin ctl-schema

as() { # USER DATABASE COMMAND...
	local user=$1 db=$2
	shift 2
	PGUSER=$user PGDATABASE=$db "$@"
}

exits "check of an empty database is 1" 1 ctl --json schema check
is "and says not_installed" "$(json "$OUT" findings,0,code)" not_installed
exits "upgrade of an empty database is 1" 1 ctl schema upgrade
like "and names install" "$ERR" "*outboxctl schema install*"
exits "a command without the schema is 78" 78 ctl contract list
like "and names the remedy" "$ERR" "*schema install*"

exits "install is 0" 0 ctl --json schema install
is "and tells the version" "$(json "$OUT" schema_version)" 4
exits "install again is 0" 0 ctl --json schema install
is "and does nothing" "$(json "$OUT" answer)" "already installed"
exits "check is 0" 0 ctl --json schema check
is "and has no findings" "$(json "$OUT" findings)" "[]"
is "nobody but the owner owns anything" "$(sql "
	SELECT count(*) FROM pg_class c WHERE relnamespace = 'outbox'::regnamespace
	   AND relowner <> 'outbox_owner'::regrole")" 0
is "every file is recorded with its sha256" "$(sql "
	SELECT string_agg(file || ' ' || sha256, ',' ORDER BY file)
	  FROM outbox.schema_migration")" "$(cd "$ROOT/sql/schema" &&
	sha256sum *.sql | awk '{print $2, $1}' | paste -sd,)"

# drift
sql "CREATE OR REPLACE FUNCTION outbox.schema_version() RETURNS int
    LANGUAGE sql AS 'SELECT 2'"
exits "a changed function is found" 1 ctl --json schema check
is "as function_changed" "$(json "$OUT" findings,0,code)" function_changed
is "with its name" "$(json "$OUT" findings,0,object)" "outbox.schema_version()"
sql "GRANT EXECUTE ON FUNCTION outbox.claim(uuid, bigint[], int[], bigint[],
    int[], bigint, bigint, int) TO PUBLIC"
sql "CREATE OR REPLACE VIEW outbox.audit AS
    SELECT at, who, action, object, detail FROM outbox.audit_log WHERE false"
sql "DROP FUNCTION outbox.event_body(uuid)"
exits "changed rights, a changed view, a missing function are found" 1 \
    ctl --json schema check
is "all of them" "$(json "$OUT" findings | grep -o '"code"' | wc -l)" 4
exits "install does not repair by itself" 1 ctl schema install
like "but names upgrade" "$ERR" "*schema upgrade*"
exits "upgrade --dry-run is 0" 0 ctl --json schema upgrade --dry-run
like "and names the functions" "$(json "$OUT" steps)" '*"functions"*'
exits "and has changed nothing" 1 ctl schema check
exits "upgrade repairs it" 0 ctl schema upgrade
exits "and check agrees" 0 ctl schema check

# what is applied is never another, nor newer
sql "UPDATE outbox.schema_migration SET sha256 = repeat('0', 64)"
exits "an applied file that differs is refused" 78 ctl schema upgrade
like "by name" "$ERR" "*0001_init.sql was applied with another content*"
sql "DROP SCHEMA outbox CASCADE"
ctl schema install >/dev/null 2>&1
sql "INSERT INTO outbox.schema_migration VALUES ('9999_later.sql', '')"
exits "a newer schema is refused" 78 ctl schema upgrade
like "as newer" "$ERR" "*newer than this outboxctl*"
exits "and check finds it" 1 ctl --json schema check
is "as file_unknown" "$(json "$OUT" findings,0,code)" file_unknown
sql "DELETE FROM outbox.schema_migration WHERE file = '9999_later.sql'"

# locks of others
sql "SELECT pg_sleep(3) FROM (SELECT pg_advisory_lock(1869968498, 1)) l" &
wait_for 10 sql_is 1 "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = 1869968498"
exits "a second installer waits for the first" 0 ctl schema upgrade
wait
psql -Xq >/dev/null <<-'SQL' &
	BEGIN; SELECT count(*) FROM outbox.audit; SELECT pg_sleep(4);
SQL
wait_for 10 sql_is t "SELECT count(*) > 0 FROM pg_locks
    WHERE relation = 'outbox.audit'::regclass"
exits "a reader's lock is waited for in short turns" 0 ctl schema upgrade
like "and that is told" "$ERR" "*others hold a lock*"
wait

# printed SQL
createdb "${PGDATABASE}_p"
ctl schema print --roles >"$T/all.sql"
exits "the printed SQL runs through psql" 0 \
    psql -Xq -v ON_ERROR_STOP=1 -d "${PGDATABASE}_p" -f "$T/all.sql"
exits "and check accepts what it made" 0 as postgres "${PGDATABASE}_p" \
    ctl schema check
dropdb "${PGDATABASE}_p"
createdb "${PGDATABASE}_p"
ctl schema print >"$T/part.sql"
is "without --roles no role is made" "$(grep -c 'CREATE ROLE' "$T/part.sql")" 0
exits "nor needed, if they are there" 0 \
    psql -Xq -v ON_ERROR_STOP=1 -d "${PGDATABASE}_p" -f "$T/part.sql"
exits "and check accepts that, too" 0 as postgres "${PGDATABASE}_p" \
    ctl schema check
dropdb "${PGDATABASE}_p"

# no superuser
me=${PGDATABASE}_dba other=${PGDATABASE}_no
psql -Xq -d postgres -c "CREATE ROLE $me LOGIN CREATEROLE" \
    -c "CREATE ROLE $other LOGIN" -c "CREATE DATABASE ${PGDATABASE}_q" \
    -c "GRANT CREATE ON DATABASE ${PGDATABASE}_q TO $me"
exits "no membership: 77" 77 as "$other" "${PGDATABASE}_q" ctl schema install
like "with the remedy" "$ERR" "*GRANT outbox_owner TO $other*"
psql -Xq -d postgres -c "GRANT outbox_owner TO $other"
exits "no CREATE on the database: 77" 77 as "$other" "${PGDATABASE}_q" \
    ctl schema install
like "with its remedy" "$ERR" \
    "*GRANT CREATE ON DATABASE ${PGDATABASE}_q TO $other*"
exits "CREATEROLE and CREATE are enough to install" 0 \
    as "$me" "${PGDATABASE}_q" ctl schema install
exits "and to upgrade" 0 as "$me" "${PGDATABASE}_q" ctl schema upgrade
exits "and check agrees with that" 0 as "$me" "${PGDATABASE}_q" \
    ctl schema check
exits "a member of outbox_owner may upgrade" 0 as "$other" \
    "${PGDATABASE}_q" ctl schema upgrade
psql -Xq -d postgres -c "REVOKE outbox_owner FROM $other"
exits "a stranger's check is 77" 77 as "$other" "${PGDATABASE}_q" \
    ctl schema check
exits "a stranger's list is 77" 77 as "$other" "${PGDATABASE}_q" \
    ctl contract list
like "and names the roles" "$ERR" "*GRANT outbox_operator*"

psql -Xq -d postgres -c "CREATE DATABASE ${PGDATABASE}_l ENCODING LATIN1
    LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
exits "an encoding that is not UTF8 is 78" 78 as postgres "${PGDATABASE}_l" \
    ctl schema install
like "with the remedy for it" "$ERR" "*createdb -E UTF8*"
exits "somebody else's schema outbox is 78" 78 sh -c "
	psql -Xq -d ${PGDATABASE}_l -c 'CREATE SCHEMA outbox' &&
	PGDATABASE=${PGDATABASE}_l '$OUTBOXCTL' schema install"

for d in _q _l; do
	dropdb "$PGDATABASE$d"
done
psql -Xq -d postgres -c "DROP ROLE $me" -c "DROP ROLE $other"
