-- 70_heartbeat.sql: what daemons tell of themselves, and the duties that ride
-- on it.  Every daemon offers to do them; an advisory lock that is never
-- waited for lets one at a time, and each run is bounded.

-- outbox._alive_since(): a daemon seen after this lives.
CREATE OR REPLACE FUNCTION outbox._alive_since() RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$ SELECT statement_timestamp() - interval '15 s' $$;

-- outbox.dispatch_targets(): every target a daemon may be asked to run.  owed:
-- something of it waits or is claimed, so that its processes are needed.
-- Fresh rows up to a lane's low are in a claim, if there are any.  A few
-- look-ups for each target, whatever the figures of the tables say: by those
-- of one busy lane a scan for each of a thousand idle ones looks cheap.
CREATE OR REPLACE FUNCTION outbox.dispatch_targets()
RETURNS TABLE (target_id bigint, subscriber_id text, plugin_id text, plugin_version text,
    artifact_digest text, handler text, handler_version text, installation_state text,
    subscriber_paused boolean, owed boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
    SELECT t.target_id, t.subscriber_id, i.plugin_id, i.plugin_version, i.artifact_digest,
           t.handler, t.handler_version, i.state, s.paused_at IS NOT NULL,
           EXISTS (SELECT FROM outbox.fresh f
                    WHERE f.target_id = t.target_id AND f.fact_id > l.low OFFSET 0)
           OR EXISTS (SELECT FROM outbox.claim c WHERE c.target_id = t.target_id OFFSET 0)
           OR EXISTS (SELECT FROM outbox.exception e
                       WHERE e.target_id = t.target_id AND e.due_at IS NOT NULL OFFSET 0)
           OR EXISTS (SELECT FROM outbox.exception e
                       WHERE e.target_id = t.target_id AND e.status = 'claimed' AND NOT e.expired
                       OFFSET 0)
      FROM outbox.target t
      JOIN outbox.lane l ON l.target_id = t.target_id
      JOIN outbox.installation i ON i.installation_id = t.installation_id
      JOIN outbox.subscriber s ON s.subscriber_id = t.subscriber_id
     WHERE i.state IN ('active', 'retained')
     ORDER BY t.target_id
$$;

-- outbox._pause_lane(target, reason, limit): pauses up to so many pending
-- deliveries of a lane, oldest first.  Attempts stay as they are.  Nothing is
-- waited for: a lane held by a claimer is left for the next run.
CREATE OR REPLACE FUNCTION outbox._pause_lane(p_target bigint, p_reason text, p_limit int)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_ids bigint[];
BEGIN
    PERFORM FROM outbox.lane l WHERE l.target_id = p_target FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    v_ids := ARRAY(
        SELECT f.fact_id FROM outbox.fresh f
         WHERE f.target_id = p_target
           AND NOT EXISTS (SELECT FROM outbox.claim c
                            WHERE c.target_id = p_target AND CASE WHEN c.fact_ids IS NULL
                                THEN f.fact_id BETWEEN c.first_id AND c.first_id + c.items - 1
                                ELSE f.fact_id = ANY (c.fact_ids) END)
         ORDER BY f.fact_id LIMIT p_limit);
    v_ids := v_ids || ARRAY( -- apart: a UNION takes no row locks
        SELECT e.fact_id FROM outbox.exception e
         WHERE e.target_id = p_target AND e.due_at IS NOT NULL
         ORDER BY e.due_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    PERFORM outbox._set_aside(p_target, v_ids,
        array_fill(p_reason, ARRAY[cardinality(v_ids)]));
    RETURN cardinality(v_ids);
END
$$;

-- outbox._duty_absence(grace_ms): targets that no living daemon offers.  The
-- time adds up only while some daemon lives (else nobody calls this), at most
-- 5 s a look; after the grace what is owed is paused, in batches.
CREATE OR REPLACE FUNCTION outbox._duty_absence(p_grace_ms bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_target bigint;
BEGIN
    DELETE FROM outbox.absence a
     WHERE EXISTS (SELECT FROM outbox.daemon d
                    WHERE d.last_seen_at > outbox._alive_since() AND NOT d.stopping
                      AND a.target_id = ANY (d.target_ids))
        OR NOT EXISTS (SELECT FROM outbox.target t
                         JOIN outbox.installation i ON i.installation_id = t.installation_id
                        WHERE t.target_id = a.target_id AND i.state IN ('active', 'retained'));
    UPDATE outbox.absence a
       SET absent_ms = a.absent_ms + least(greatest(
               extract(epoch FROM clock_timestamp() - a.checked_at) * 1000, 0), 5000)::bigint,
           checked_at = clock_timestamp();
    INSERT INTO outbox.absence (target_id)
    SELECT t.target_id FROM outbox.target t
      JOIN outbox.installation i ON i.installation_id = t.installation_id
     WHERE i.state IN ('active', 'retained')
       AND NOT EXISTS (SELECT FROM outbox.daemon d
                        WHERE d.last_seen_at > outbox._alive_since() AND NOT d.stopping
                          AND t.target_id = ANY (d.target_ids))
       AND NOT EXISTS (SELECT FROM outbox.absence a WHERE a.target_id = t.target_id);
    FOR v_target IN
        SELECT a.target_id FROM outbox.absence a
         WHERE a.absent_ms >= p_grace_ms
           AND (EXISTS (SELECT FROM outbox.fresh f WHERE f.target_id = a.target_id OFFSET 0)
                OR EXISTS (SELECT FROM outbox.exception e
                            WHERE e.target_id = a.target_id AND e.due_at IS NOT NULL OFFSET 0))
         ORDER BY a.target_id
    LOOP
        PERFORM outbox._pause_lane(v_target, 'frozen_handler_unavailable', 1000);
    END LOOP;
END
$$;

-- outbox._duty_oversize(grace_ms): pending deliveries that exceed the budget
-- of every living daemon, after the grace.
CREATE OR REPLACE FUNCTION outbox._duty_oversize(p_grace_ms bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_most bigint;
    v_lane record;
    v_ids bigint[];
BEGIN
    SELECT max(d.max_bytes) INTO v_most FROM outbox.daemon d
     WHERE d.last_seen_at > outbox._alive_since() AND NOT d.stopping;
    FOR v_lane IN
        SELECT e.target_id, array_agg(e.fact_id) AS ids FROM (
            SELECT x.target_id, x.fact_id FROM (
                SELECT y.target_id, y.fact_id FROM outbox.exception y
                 WHERE y.oversize_since <= statement_timestamp() - p_grace_ms * interval '1 millisecond'
                   AND y.status = 'pending' OFFSET 0) x -- these first, not every large fact
              JOIN outbox.fact f ON f.fact_id = ANY (ARRAY[x.fact_id])
             WHERE f.frame_bytes > v_most
             LIMIT 1000) e
         GROUP BY e.target_id ORDER BY e.target_id
    LOOP
        PERFORM FROM outbox.lane l WHERE l.target_id = v_lane.target_id FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            -- again under the lock: a larger daemon may have claimed some
            SELECT array_agg(e.fact_id) INTO v_ids FROM outbox.exception e
             WHERE e.target_id = v_lane.target_id AND e.fact_id = ANY (v_lane.ids)
               AND e.status = 'pending' AND e.oversize_since IS NOT NULL;
            PERFORM outbox._set_aside(v_lane.target_id, v_ids,
                array_fill('exceeds_memory_budget'::text, ARRAY[coalesce(cardinality(v_ids), 0)]));
        END IF;
    END LOOP;
END
$$;

-- outbox._duty_lanes(reaper): lanes that no claim visits: expired claims of
-- lanes that are saturated, paused or offered by nobody, and what publishers
-- committed late for installations that are inactive.
CREATE OR REPLACE FUNCTION outbox._duty_lanes(p_reaper uuid) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_target bigint;
BEGIN
    FOR v_target IN
        SELECT DISTINCT c.target_id FROM (
            SELECT x.target_id FROM outbox.claim x WHERE x.expires_at <= clock_timestamp()
            UNION ALL
            SELECT e.target_id FROM outbox.exception e
             WHERE e.status = 'claimed' AND NOT e.expired AND e.claim_expires_at <= clock_timestamp()) c
         ORDER BY 1 LIMIT 100
    LOOP
        PERFORM FROM outbox.lane l WHERE l.target_id = v_target FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            PERFORM outbox._reap_lane(v_target, p_reaper);
        END IF;
    END LOOP;
    FOR v_target IN
        SELECT t.target_id FROM outbox.target t
          JOIN outbox.installation i ON i.installation_id = t.installation_id
         WHERE i.state IN ('inactive', 'removed')
           AND (EXISTS (SELECT FROM outbox.fresh f WHERE f.target_id = t.target_id OFFSET 0)
                OR EXISTS (SELECT FROM outbox.exception e
                            WHERE e.target_id = t.target_id AND e.due_at IS NOT NULL OFFSET 0))
         ORDER BY t.target_id LIMIT 100
    LOOP
        PERFORM outbox._pause_lane(v_target, 'installation_inactive', 1000);
    END LOOP;
END
$$;

-- outbox._duty_partitions(): receipts' partitions of this and the next two
-- months.  Attaching needs a moment's lock of the default partition; if it is
-- not to be had within half a second the next run tries again.
CREATE OR REPLACE FUNCTION outbox._duty_partitions() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET lock_timeout = '500ms' SET TimeZone = 'UTC'
AS $$
DECLARE
    v_from timestamptz;
    v_name text;
BEGIN
    FOR v_month IN 0..2 LOOP
        v_from := date_trunc('month', clock_timestamp()) + v_month * interval '1 month';
        v_name := 'receipt_' || to_char(v_from, 'YYYYMM');
        CONTINUE WHEN to_regclass('outbox.' || v_name) IS NOT NULL;
        BEGIN
            EXECUTE format('CREATE TABLE outbox.%I (LIKE outbox.receipt INCLUDING ALL)', v_name);
            EXECUTE format('ALTER TABLE outbox.receipt ATTACH PARTITION outbox.%I FOR VALUES FROM (%L) TO (%L)',
                v_name, v_from, v_from + interval '1 month');
        EXCEPTION WHEN lock_not_available OR check_violation OR duplicate_table THEN
            NULL; -- the default partition takes the rows
        END;
    END LOOP;
END
$$;
-- Before the first receipt, not while it is written.
DO $$ BEGIN PERFORM outbox._duty_partitions(); END $$;

-- outbox._duties(worker, grace_ms): those that are due, if nobody else is at
-- it.  Its settings hold for all of them: by index, whatever waits.
CREATE OR REPLACE FUNCTION outbox._duties(p_worker uuid, p_grace_ms bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM outbox.duty d
                    WHERE d.name = 'sweep' AND d.done_at < clock_timestamp() - interval '0.9 s')
       OR NOT pg_try_advisory_xact_lock(outbox._wake_class(), 100) THEN
        RETURN;
    END IF;
    UPDATE outbox.duty d SET done_at = clock_timestamp() WHERE d.name = 'sweep';
    PERFORM outbox._duty_absence(p_grace_ms);
    PERFORM outbox._duty_oversize(p_grace_ms);
    PERFORM outbox._duty_lanes(p_worker);
    UPDATE outbox.duty d SET done_at = clock_timestamp()
     WHERE d.name = 'partitions' AND d.done_at < clock_timestamp() - interval '1 h';
    IF FOUND THEN
        PERFORM outbox._duty_partitions();
        DELETE FROM outbox.daemon d WHERE d.last_seen_at < clock_timestamp() - interval '1 day';
    END IF;
END
$$;

-- outbox.heartbeat(...): a daemon lives.  About once a second.
--   worker      fresh uuid at every start
--   target_ids  what it can run now, by exact artifact
--   max_bytes   memory.max_json_bytes
--   grace_ms    dispatch.unavailable_grace
--   stopping    true: it stops on purpose, its expired claims count no crash
--   detail      what people may want to see of it; NULL: as it was
-- Answers the authority seq (another one than last time: ask
-- dispatch_targets again) and the database's time.
CREATE OR REPLACE FUNCTION outbox.heartbeat(p_worker uuid, p_host text, p_pid bigint,
    p_version text, p_target_ids bigint[], p_max_bytes bigint, p_grace_ms bigint,
    p_stopping boolean DEFAULT false, p_detail json DEFAULT NULL)
RETURNS TABLE (authority_seq bigint, database_time timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off
AS $$
BEGIN
    PERFORM outbox._need_read_committed();
    UPDATE outbox.daemon d
       SET contact_since = CASE WHEN d.last_seen_at < clock_timestamp() - interval '5 s'
                                THEN clock_timestamp() ELSE d.contact_since END,
           last_seen_at = clock_timestamp(), stopping = p_stopping,
           target_ids = p_target_ids, max_bytes = p_max_bytes,
           detail = coalesce(p_detail, d.detail)
     WHERE d.worker = p_worker;
    IF NOT FOUND THEN
        INSERT INTO outbox.daemon (worker, host, pid, version, stopping, target_ids, max_bytes,
            detail)
        VALUES (p_worker, p_host, p_pid, p_version, p_stopping, p_target_ids, p_max_bytes, p_detail);
    END IF;
    IF NOT p_stopping THEN
        PERFORM outbox._duties(p_worker, p_grace_ms);
    END IF;
    RETURN QUERY SELECT a.seq, clock_timestamp() FROM outbox.authority a;
END
$$;
