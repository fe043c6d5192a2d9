-- roles.sql: the owner, the four roles that logins are granted, the schema.
--
-- Safe to run again.  Needs CREATEROLE and CREATE on the database, not
-- superuser.  No role created here can log in: grant them to your logins,
-- e.g.  GRANT outbox_publisher TO shop;
DO $$
DECLARE
    v_role text;
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'database % has encoding %, outbox needs UTF8',
            current_database(), current_setting('server_encoding')
            USING HINT = 'create a database with ENCODING ''UTF8''';
    END IF;
    FOREACH v_role IN ARRAY ARRAY['outbox_owner', 'outbox_publisher',
            'outbox_dispatcher', 'outbox_operator', 'outbox_viewer'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = v_role) THEN
            EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', v_role);
        END IF;
    END LOOP;
    IF NOT pg_catalog.pg_has_role(current_user, 'outbox_owner', 'USAGE') THEN
        EXECUTE pg_catalog.format('GRANT outbox_owner TO %I', current_user);
    END IF;
    -- to name the session that keeps dead rows: outbox.horizon_holders()
    IF NOT pg_catalog.pg_has_role('outbox_owner', 'pg_read_all_stats', 'USAGE') THEN
        BEGIN
            GRANT pg_read_all_stats TO outbox_owner;
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE NOTICE 'outbox_owner is no member of pg_read_all_stats, so that status cannot '
                'tell which session keeps dead rows from being vacuumed'
                USING HINT = 'as a superuser: GRANT pg_read_all_stats TO outbox_owner';
        END;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = 'outbox') THEN
        CREATE SCHEMA outbox AUTHORIZATION outbox_owner;
    END IF;
END
$$;
