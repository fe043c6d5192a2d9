-- 10_guard.sql: small checks and constants that the other functions share.

-- outbox.schema_version(): the number of the last file in sql/schema.
CREATE OR REPLACE FUNCTION outbox.schema_version() RETURNS int
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
    SELECT max(substring(m.file FROM '([0-9]{4})_[^/]*$')::int)
      FROM outbox.schema_migration m
$$;

-- outbox._need_read_committed(): OB020 in any other isolation level.  The
-- fences of claim and settle read what others committed while they waited
-- for a lock, and a frozen snapshot would hide exactly that.
CREATE OR REPLACE FUNCTION outbox._need_read_committed() RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'this function needs READ COMMITTED, not %',
            upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'OB020',
                  HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED';
    END IF;
END
$$;

-- outbox._check_label(what, value): workspace and subject rules of the words:
-- not blank, at most 256 bytes, no control characters.  22023 otherwise.
CREATE OR REPLACE FUNCTION outbox._check_label(p_what text, p_value text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    IF p_value IS NULL THEN
        RAISE EXCEPTION '% is null', p_what USING ERRCODE = '22004';
    ELSIF p_value !~ '[^[:space:]]' THEN
        RAISE EXCEPTION '% is blank', p_what USING ERRCODE = '22023';
    ELSIF octet_length(p_value) > 256 THEN
        RAISE EXCEPTION '% is % bytes long, at most 256 are allowed',
            p_what, octet_length(p_value) USING ERRCODE = '22023';
    ELSIF p_value ~ '[\u0001-\u001f\u007f-\u009f]' THEN
        RAISE EXCEPTION '% holds a control character', p_what
            USING ERRCODE = '22023';
    END IF;
END
$$;

-- outbox._clip(text): at most 4096 bytes, cut between two characters.
CREATE OR REPLACE FUNCTION outbox._clip(p_text text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_raw bytea;
    v_end int := 4096;
BEGIN
    IF p_text IS NULL OR octet_length(p_text) <= 4096 THEN
        RETURN p_text;
    END IF;
    v_raw := convert_to(p_text, 'UTF8');
    WHILE get_byte(v_raw, v_end) & 192 = 128 LOOP -- inside a character
        v_end := v_end - 1;
    END LOOP;
    RETURN convert_from(substring(v_raw FROM 1 FOR v_end), 'UTF8');
END
$$;

-- outbox._later(delay_ms): that long from now by the wall clock, saturating
-- at 400 days so that no arithmetic on a silly delay can overflow.
CREATE OR REPLACE FUNCTION outbox._later(p_delay_ms bigint) RETURNS timestamptz
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
    SELECT clock_timestamp()
         + least(greatest(coalesce(p_delay_ms, 0), 0), 34560000000)
         * interval '1 millisecond'
$$;

-- outbox._uuid7(): a random uuid whose first 48 bits are the time, so that
-- event ids made here arrive in index order.  No settings of its own, so that
-- it becomes a part of the caller's expression: a call costs as much as a row.
CREATE OR REPLACE FUNCTION outbox._uuid7() RETURNS uuid
LANGUAGE sql VOLATILE
AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint) FROM 3)
        FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
$$;

-- outbox._rfc3339(time): UTC with microseconds, whatever DateStyle says.
CREATE OR REPLACE FUNCTION outbox._rfc3339(p_time timestamptz) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
    SELECT to_char(p_time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- outbox._wake_class(): first half of the advisory keys of sleeping dispatchers.
CREATE OR REPLACE FUNCTION outbox._wake_class() RETURNS int
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$ SELECT 1869771607 $$;

-- outbox._somebody_sleeps(): whether a dispatcher does.  A sleeper holds one of
-- four keys; trying them reads live state even under REPEATABLE READ.  CASE,
-- as nothing else promises an order.  It, too, becomes a part of the caller.
CREATE OR REPLACE FUNCTION outbox._somebody_sleeps() RETURNS boolean
LANGUAGE sql VOLATILE
AS $$
    SELECT CASE
        WHEN NOT pg_try_advisory_lock_shared(outbox._wake_class(), 0) THEN true
        WHEN NOT pg_advisory_unlock_shared(outbox._wake_class(), 0) THEN NULL
        WHEN NOT pg_try_advisory_lock_shared(outbox._wake_class(), 1) THEN true
        WHEN NOT pg_advisory_unlock_shared(outbox._wake_class(), 1) THEN NULL
        WHEN NOT pg_try_advisory_lock_shared(outbox._wake_class(), 2) THEN true
        WHEN NOT pg_advisory_unlock_shared(outbox._wake_class(), 2) THEN NULL
        WHEN NOT pg_try_advisory_lock_shared(outbox._wake_class(), 3) THEN true
        WHEN NOT pg_advisory_unlock_shared(outbox._wake_class(), 3) THEN NULL
        ELSE false END
$$;

-- outbox._wake(): NOTIFY, but only while some dispatcher sleeps, because a
-- notifying commit takes a lock of the whole instance.
CREATE OR REPLACE FUNCTION outbox._wake() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    IF outbox._somebody_sleeps() THEN
        PERFORM pg_notify('outbox_wake', '');
    END IF;
END
$$;

-- outbox._wake_for(targets): NOTIFY, unless all their subscribers are paused.
-- For who has asked _somebody_sleeps() already.
CREATE OR REPLACE FUNCTION outbox._wake_for(p_targets bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM outbox.target t
                 JOIN outbox.subscriber s ON s.subscriber_id = t.subscriber_id
                WHERE t.target_id = ANY (p_targets) AND s.paused_at IS NULL) THEN
        PERFORM pg_notify('outbox_wake', '');
    END IF;
END
$$;

-- outbox.sleep_begin(worker): takes a sleeper's key for this session.
-- False: all are taken; then somebody else is woken, and the caller polls.
CREATE OR REPLACE FUNCTION outbox.sleep_begin(p_worker uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_first int := get_byte(uuid_send(p_worker), 15) & 3;
BEGIN
    PERFORM outbox.sleep_end();
    -- twice: a publisher's look at a key is over in microseconds
    FOR v_try IN 0..7 LOOP
        IF pg_try_advisory_lock(outbox._wake_class(), (v_first + v_try) & 3) THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END
$$;

-- outbox.sleep_end(): gives the key up, if this session holds one.
CREATE OR REPLACE FUNCTION outbox.sleep_end() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_slot int;
BEGIN
    FOR v_slot IN
        SELECT l.objid::bigint::int FROM pg_locks l
         WHERE l.locktype = 'advisory' AND l.pid = pg_backend_pid()
           AND l.database = (SELECT d.oid FROM pg_database d
                              WHERE d.datname = current_database())
           AND l.classid::bigint = outbox._wake_class() AND l.objsubid = 2
           AND l.granted
    LOOP
        PERFORM pg_advisory_unlock(outbox._wake_class(), v_slot);
    END LOOP;
END
$$;

-- outbox._audit(action, object, detail): who did what, in the same transaction.
CREATE OR REPLACE FUNCTION outbox._audit(p_action text, p_object text, p_detail json DEFAULT NULL)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
    INSERT INTO outbox.audit_log (who, action, object, detail)
    VALUES (session_user, p_action, p_object, p_detail)
$$;
