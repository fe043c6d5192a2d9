-- 50_claim.sql: who executes what, and until when.
--
-- The parts are plpgsql, not sql: a sql function is planned anew at each call.
-- So plans are cached on whatever the tables were, and k = ANY (ARRAY[x]) is
-- k = x that can be nothing but a look-up: for the sake of an equality a whole
-- index may be walked in its order, which looks cheapest where a lane that
-- keeps up was analysed nearly empty.  OFFSET 0 keeps x from being a constant.
--
-- A claim locks each lane first, in a statement of its own: what it reads
-- afterwards is newer than the last claimer's commit, so two claimers whose
-- snapshots precede each other's commit can never get the same delivery.

-- outbox._died(worker, claimed_at, expires_at, reaper): did this claim expire
-- because its daemon died?  Not if the daemon still heartbeats or has stopped
-- properly, nor if the database, or the reaper's own link to it, was away in
-- between; an unknown worker proves nothing.  2.5 s: two heartbeats missed.
CREATE OR REPLACE FUNCTION outbox._died(p_worker uuid, p_claimed_at timestamptz,
    p_expires_at timestamptz, p_reaper uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM outbox.daemon d
         WHERE d.worker = p_worker AND NOT d.stopping
           AND d.last_seen_at < p_expires_at
           AND d.last_seen_at < clock_timestamp() - interval '2.5 s'
           AND pg_postmaster_start_time() < p_claimed_at
           AND d.worker IS DISTINCT FROM p_reaper
           AND NOT EXISTS (SELECT FROM outbox.daemon r
                            WHERE r.worker = p_reaper AND r.started_at < d.last_seen_at
                              AND (r.contact_since > p_expires_at
                                   OR r.last_seen_at < clock_timestamp() - interval '5 s')));
END
$$;

-- outbox._reap_lane(target, reaper): expired claims of a lane the caller has
-- locked.  Their deliveries stay claimed but may be claimed anew, due from
-- the expiry; a death is counted, and a suspect that died once too often is
-- paused crash_loop.  Answers how many.
CREATE OR REPLACE FUNCTION outbox._reap_lane(p_target bigint, p_reaper uuid) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    c outbox.claim;
    v_died boolean;
    v_count bigint := 0;
    v_n bigint;
BEGIN
    FOR c IN
        SELECT * FROM outbox.claim x
         WHERE x.target_id = p_target AND x.expires_at <= statement_timestamp()
         ORDER BY x.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED
    LOOP
        v_died := outbox._died(c.worker, c.claimed_at, c.expires_at, p_reaper);
        WITH gone AS (
            DELETE FROM outbox.fresh f
             USING (SELECT p_target AS target_id, y.fact_id
                      FROM unnest(outbox._claim_ids(c)) y(fact_id) OFFSET 0) u
             WHERE f.target_id = ANY (ARRAY[u.target_id]) AND f.fact_id = u.fact_id
            RETURNING f.fact_id
        ), kept AS (
            INSERT INTO outbox.exception (target_id, fact_id, status, attempt_count, crash_count,
                authority_seq, available_at, due_at, claim_id, claimed_by, claimed_at,
                claim_expires_at, expired)
            SELECT p_target, g.fact_id, 'claimed', 1, v_died::int, x.authority_seq,
                   x.published_at, c.expires_at, c.claim_id, c.worker, c.claimed_at, c.expires_at, true
              FROM gone g JOIN outbox.fact x ON x.fact_id = ANY (ARRAY[g.fact_id])
        )
        INSERT INTO outbox.attempt (fact_id, target_id, generation, attempt, outcome, claim_id,
            worker, ended_at, error)
        SELECT g.fact_id, p_target, 1, 1, CASE WHEN v_died THEN 'crashed' ELSE 'interrupted' END,
               c.claim_id, c.worker, c.expires_at, 'claim expired'
          FROM gone g;
        GET DIAGNOSTICS v_n = ROW_COUNT;
        v_count := v_count + v_n;
        DELETE FROM outbox.claim x WHERE x.claim_id = c.claim_id;
    END LOOP;

    WITH due AS MATERIALIZED (
        SELECT e.target_id, e.fact_id,
               outbox._died(e.claimed_by, e.claimed_at, e.claim_expires_at, p_reaper) AS died
          FROM outbox.exception e
         WHERE e.target_id = p_target AND e.status = 'claimed' AND NOT e.expired
           AND e.claim_expires_at <= statement_timestamp()
         ORDER BY e.claim_expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED
    ), told AS (
        INSERT INTO outbox.attempt (fact_id, target_id, generation, attempt, outcome, verdict,
            claim_id, worker, ended_at, error)
        SELECT e.fact_id, e.target_id, e.generation, e.attempt_count,
               CASE WHEN d.died THEN 'crashed' ELSE 'interrupted' END,
               CASE WHEN d.died AND e.crash_count >= 2 AND e.crash_count + 1 >= e.max_crashes
                    THEN 'pause' END,
               e.claim_id, e.claimed_by, e.claim_expires_at, 'claim expired'
          FROM due d JOIN outbox.exception e ON e.target_id = ANY (ARRAY[d.target_id]) AND e.fact_id = d.fact_id
        RETURNING target_id, fact_id, verdict, outcome
    )
    UPDATE outbox.exception e
       SET crash_count = e.crash_count + (t.outcome = 'crashed')::int,
           status = CASE WHEN t.verdict IS NULL THEN 'claimed' ELSE 'paused' END,
           expired = t.verdict IS NULL,
           due_at = CASE WHEN t.verdict IS NULL THEN e.claim_expires_at END,
           claim_id = CASE WHEN t.verdict IS NULL THEN e.claim_id END,
           claimed_by = CASE WHEN t.verdict IS NULL THEN e.claimed_by END,
           claimed_at = CASE WHEN t.verdict IS NULL THEN e.claimed_at END,
           claim_expires_at = CASE WHEN t.verdict IS NULL THEN e.claim_expires_at END,
           pause_reason = CASE WHEN t.verdict = 'pause' THEN 'crash_loop' END,
           paused_at = CASE WHEN t.verdict = 'pause' THEN clock_timestamp() END
      FROM told t
     WHERE e.target_id = ANY (ARRAY[t.target_id]) AND e.fact_id = t.fact_id;
    GET DIAGNOSTICS v_n = ROW_COUNT;
    RETURN v_count + v_n;
END
$$;

-- outbox._sweep_lane(target, seen_pos): late commits of a lane the
-- caller has locked: fresh rows behind the position and in no live claim.
-- They become exceptions, due since they were published.
--   seen_pos  a position of this lane that was read before the caller's
--             transaction got its xid; NULL where it had one already.
-- low follows: once every transaction before check_xid has ended, no fresh
-- row up to check_pos can appear any more, for publish takes its xid before
-- it draws a fact_id.  Where none before our own runs any more, that is now.
-- Sweeps may take a twentieth of the time: a second after swept_at the next
-- is due, and after a quick one swept_at is set back.
CREATE OR REPLACE FUNCTION outbox._sweep_lane(p_target bigint, p_seen_pos bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    l outbox.lane;
    v_began timestamptz := clock_timestamp();
    v_xmin xid8;
    v_count bigint;
    v_passed boolean;
    v_clear bigint;     -- up to here no publisher is under way
    v_now timestamptz;
BEGIN
    SELECT * INTO l FROM outbox.lane x WHERE x.target_id = p_target;
    -- before the scan, so that what ends in between is found next time
    v_xmin := pg_snapshot_xmin(pg_current_snapshot());
    v_clear := greatest(l.low, CASE WHEN v_xmin = pg_current_xact_id() THEN p_seen_pos END);
    WITH late AS MATERIALIZED (
        SELECT f.target_id, f.fact_id FROM outbox.fresh f
         WHERE f.target_id = p_target AND f.fact_id > l.low AND f.fact_id <= l.pos
        EXCEPT
        SELECT c.target_id, u.fact_id FROM outbox.claim c CROSS JOIN unnest(outbox._claim_ids(c)) u(fact_id)
         WHERE c.target_id = p_target
    ), gone AS (
        DELETE FROM outbox.fresh f USING late v
         WHERE f.target_id = ANY (ARRAY[v.target_id]) AND f.fact_id = v.fact_id
        RETURNING f.fact_id
    )
    INSERT INTO outbox.exception (target_id, fact_id, status, attempt_count, authority_seq,
        available_at, due_at)
    SELECT p_target, g.fact_id, 'pending', 0, x.authority_seq, x.published_at, x.published_at
      FROM gone g JOIN outbox.fact x ON x.fact_id = ANY (ARRAY[g.fact_id]);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    v_passed := v_xmin >= l.check_xid;
    v_now := clock_timestamp();
    -- one that has not been given out yet was written by another cluster: start
    -- anew.  It may well be younger than ours.
    UPDATE outbox.lane x
       SET low = greatest(v_clear, CASE WHEN v_passed THEN l.check_pos END),
           check_pos = greatest(l.check_pos, v_clear, CASE WHEN v_passed THEN p_seen_pos END),
           check_xid = CASE WHEN v_passed AND p_seen_pos IS NOT NULL
                                 OR l.check_xid >= pg_snapshot_xmax(pg_current_snapshot())
                            THEN pg_current_xact_id() ELSE l.check_xid END,
           swept_at = v_now - greatest(interval '1 s' - 20 * (v_now - v_began), interval '0')
     WHERE x.target_id = p_target;
    RETURN v_count;
END
$$;

-- outbox._claim_gate(targets): a look at each lane without any lock: is there
-- something to claim, reap or sweep, or when will there be?  Touches a
-- handful of index pages a lane however many deliveries wait or are paused.
-- OFFSET 0 keeps each EXISTS from being planned as a hash of all lanes, which
-- looks cheap on an empty table and stays cached when that fills.
CREATE OR REPLACE FUNCTION outbox._claim_gate(p_target_ids bigint[])
RETURNS TABLE (n bigint, target_id bigint, answer text, seen_pos bigint, due boolean,
               reap boolean, sweep boolean, next_due_ms bigint)
LANGUAGE plpgsql STABLE ROWS 100
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT t.n, t.id,
           CASE WHEN i.state IS NULL OR i.state NOT IN ('active', 'retained') THEN 'inactive'
                WHEN s.paused_at IS NOT NULL THEN 'paused'
                WHEN w.fresh OR w.due OR w.reap OR w.sweep THEN 'work'
                ELSE 'empty' END,
           l.pos, w.due, w.reap, w.sweep,
           CASE WHEN s.paused_at IS NULL AND NOT (w.fresh OR w.due OR w.reap) THEN (
               SELECT ceil(extract(epoch FROM min(q.at) - statement_timestamp()) * 1000)::bigint
                 FROM (VALUES (
                     (SELECT e.due_at FROM outbox.exception e WHERE e.target_id = t.id
                       AND e.due_at IS NOT NULL ORDER BY e.due_at LIMIT 1)), (
                     (SELECT c.expires_at FROM outbox.claim c WHERE c.target_id = t.id
                       ORDER BY c.expires_at LIMIT 1)), (
                     (SELECT e.claim_expires_at FROM outbox.exception e WHERE e.target_id = t.id
                       AND e.status = 'claimed' AND NOT e.expired
                       ORDER BY e.claim_expires_at LIMIT 1))) q(at)) END
      FROM unnest(p_target_ids) WITH ORDINALITY t(id, n)
      JOIN outbox.lane l ON l.target_id = t.id
      JOIN outbox.target g ON g.target_id = t.id
      JOIN outbox.installation i ON i.installation_id = g.installation_id
      JOIN outbox.subscriber s ON s.subscriber_id = g.subscriber_id
      LEFT JOIN LATERAL (SELECT
           EXISTS (SELECT FROM outbox.fresh f
                    WHERE f.target_id = t.id AND f.fact_id > l.pos OFFSET 0) AS fresh,
           EXISTS (SELECT FROM outbox.exception e
                    WHERE e.target_id = t.id AND e.due_at <= statement_timestamp() OFFSET 0) AS due,
           EXISTS (SELECT FROM outbox.claim c
                    WHERE c.target_id = t.id AND c.expires_at <= statement_timestamp() OFFSET 0)
           OR EXISTS (SELECT FROM outbox.exception e
                       WHERE e.target_id = t.id AND e.status = 'claimed' AND NOT e.expired
                         AND e.claim_expires_at <= statement_timestamp() OFFSET 0) AS reap,
           l.low < l.pos AND l.swept_at < statement_timestamp() - interval '1 s' AS sweep
         WHERE s.paused_at IS NULL) w ON true
     ORDER BY t.n;
END
$$;

-- outbox._set_aside(target, ids, reason): what a claim met and may not hand
-- out.  A pause_reason pauses it; 'oversize' leaves it pending for a daemon
-- with a larger budget.  Attempts stay as they are.  Caller holds the lane.
CREATE OR REPLACE FUNCTION outbox._set_aside(p_target bigint, p_fact_ids bigint[], p_reasons text[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    WITH aside AS MATERIALIZED (
        SELECT p_target AS target_id, u.fact_id, nullif(u.reason, 'oversize') AS reason
          FROM unnest(p_fact_ids, p_reasons) u(fact_id, reason)
    ), gone AS (
        DELETE FROM outbox.fresh f USING aside a
         WHERE f.target_id = ANY (ARRAY[a.target_id]) AND f.fact_id = a.fact_id
        RETURNING f.fact_id, a.reason
    )
    INSERT INTO outbox.exception (target_id, fact_id, status, attempt_count, authority_seq,
        available_at, due_at, pause_reason, paused_at, oversize_since)
    SELECT p_target, g.fact_id, CASE WHEN g.reason IS NULL THEN 'pending' ELSE 'paused' END, 0,
           x.authority_seq, x.published_at, CASE WHEN g.reason IS NULL THEN x.published_at END,
           g.reason, CASE WHEN g.reason IS NOT NULL THEN clock_timestamp() END,
           CASE WHEN g.reason IS NULL THEN clock_timestamp() END
      FROM gone g JOIN outbox.fact x ON x.fact_id = ANY (ARRAY[g.fact_id]);

    UPDATE outbox.exception e
       SET status = 'paused', due_at = NULL, expired = false, claim_id = NULL, claimed_by = NULL,
           claimed_at = NULL, claim_expires_at = NULL, pause_reason = u.reason,
           paused_at = clock_timestamp()
      FROM (SELECT p_target AS target_id, y.fact_id, y.reason
              FROM unnest(p_fact_ids, p_reasons) y(fact_id, reason) OFFSET 0) u
     WHERE e.target_id = ANY (ARRAY[u.target_id]) AND e.fact_id = u.fact_id AND u.reason <> 'oversize'
       AND e.status <> 'paused';
    UPDATE outbox.exception e
       SET oversize_since = coalesce(e.oversize_since, clock_timestamp())
      FROM (SELECT p_target AS target_id, y.fact_id, y.reason
              FROM unnest(p_fact_ids, p_reasons) y(fact_id, reason) OFFSET 0) u
     WHERE e.target_id = ANY (ARRAY[u.target_id]) AND e.fact_id = u.fact_id AND u.reason = 'oversize'
       AND e.oversize_since IS NULL;
END
$$;

-- outbox._claim_pick(...): the next deliveries of a lane the caller has
-- locked: due exceptions and fresh rows beyond the position, merged by the
-- time they fell due, within items and bytes, at most so many suspects.
--   aside, why     what is in the way and may not be handed out
--   new_pos        where the lane's position goes
--   need_bytes     size of the first that fits no more
CREATE OR REPLACE FUNCTION outbox._claim_pick(p_target bigint, p_limit int, p_scan int,
    p_max_bytes bigint, p_budget_bytes bigint, p_suspects int, p_lapses boolean, p_pos bigint,
    OUT fresh_ids bigint[], OUT exception_ids bigint[], OUT suspects int, OUT bytes bigint,
    OUT aside bigint[], OUT why text[], OUT new_pos bigint, OUT need_bytes bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
    WITH ordinary AS MATERIALIZED (
        SELECT e.fact_id, e.due_at, e.authority_seq, 0 AS suspect
          FROM outbox.exception e
         WHERE e.target_id = p_target AND e.due_at <= statement_timestamp() AND e.crash_count < 2
           AND (e.oversize_since IS NULL OR (SELECT x.frame_bytes FROM outbox.fact x
                WHERE x.fact_id = e.fact_id) <= p_budget_bytes)
         ORDER BY e.due_at, e.fact_id LIMIT p_scan FOR UPDATE OF e SKIP LOCKED
    ), suspect AS MATERIALIZED (
        SELECT e.fact_id, e.due_at, e.authority_seq, 1 AS suspect
          FROM outbox.exception e
         WHERE e.target_id = p_target AND e.due_at <= statement_timestamp() AND e.crash_count >= 2
           AND (e.oversize_since IS NULL OR (SELECT x.frame_bytes FROM outbox.fact x
                WHERE x.fact_id = e.fact_id) <= p_budget_bytes)
         ORDER BY e.due_at, e.fact_id LIMIT p_suspects FOR UPDATE OF e SKIP LOCKED
    ), fresh AS MATERIALIZED (
        SELECT f.fact_id FROM outbox.fresh f
         WHERE f.target_id = p_target AND f.fact_id > p_pos
         ORDER BY f.fact_id LIMIT p_scan
    ), candidate AS (
        SELECT e.fact_id, e.due_at, e.authority_seq, e.suspect, true AS old,
               x.frame_bytes, x.contract_key, x.workspace, x.graph_id
          FROM (SELECT * FROM ordinary UNION ALL SELECT * FROM suspect) e
          JOIN outbox.fact x ON x.fact_id = ANY (ARRAY[e.fact_id])
        UNION ALL
        -- never earlier than the row before it, so that what is taken is
        -- always a run that starts at the position
        SELECT f.fact_id, max(x.published_at) OVER (ORDER BY f.fact_id), x.authority_seq, 0, false,
               x.frame_bytes, x.contract_key, x.workspace, x.graph_id
          FROM fresh f JOIN outbox.fact x ON x.fact_id = ANY (ARRAY[f.fact_id])
    ), judged AS MATERIALIZED (
        SELECT c.*, CASE
               WHEN p_lapses AND outbox._lapse_reason(p_target, c.authority_seq, c.contract_key,
                    c.workspace) IS NOT NULL
                    THEN outbox._lapse_reason(p_target, c.authority_seq, c.contract_key, c.workspace)
               WHEN NOT EXISTS (SELECT FROM outbox.graph g WHERE g.graph_id = c.graph_id)
                    THEN 'frozen_graph_unavailable'
               WHEN c.frame_bytes > p_budget_bytes THEN 'oversize' END AS why
          FROM candidate c
    ), summed AS (
        SELECT j.*, count(*) FILTER (WHERE j.why IS NULL) OVER w AS n,
               sum(CASE WHEN j.why IS NULL THEN j.frame_bytes ELSE 0 END) OVER w AS total
          FROM judged j WINDOW w AS (ORDER BY j.due_at, j.old DESC, j.fact_id)
    ), cut AS (
        SELECT s.*, s.n <= p_limit AND s.total <= p_max_bytes AS fits FROM summed s
    )
    SELECT array_agg(c.fact_id ORDER BY c.fact_id) FILTER (WHERE c.fits AND c.why IS NULL AND NOT c.old),
           array_agg(c.fact_id ORDER BY c.fact_id) FILTER (WHERE c.fits AND c.why IS NULL AND c.old),
           coalesce(sum(c.suspect) FILTER (WHERE c.fits AND c.why IS NULL), 0)::int,
           coalesce(sum(c.frame_bytes) FILTER (WHERE c.fits AND c.why IS NULL), 0)::bigint,
           array_agg(c.fact_id ORDER BY c.fact_id) FILTER (WHERE c.fits AND c.why IS NOT NULL),
           array_agg(c.why ORDER BY c.fact_id) FILTER (WHERE c.fits AND c.why IS NOT NULL),
           coalesce(max(c.fact_id) FILTER (WHERE c.fits AND NOT c.old), p_pos),
           min(c.frame_bytes) FILTER (WHERE NOT c.fits AND c.n <= p_limit AND c.why IS NULL)
      INTO fresh_ids, exception_ids, suspects, bytes, aside, why, new_pos, need_bytes
      FROM cut c;
END
$$;

-- outbox._claim_run(...): the same where nothing but fresh rows can be due, as is
-- usual: the run behind the position, if all of it fits and may be handed out.
-- Which it may if it was published under authority p_lapse or later, the last
-- at which any was lost.  fresh_ids is NULL if it may not, or if there is none:
-- then _claim_pick judges one by one, at four times the cost.
CREATE OR REPLACE FUNCTION outbox._claim_run(p_target bigint, p_limit int, p_max_bytes bigint,
    p_budget_bytes bigint, p_pos bigint, p_lapse bigint,
    OUT fresh_ids bigint[], OUT exception_ids bigint[], OUT suspects int, OUT bytes bigint,
    OUT aside bigint[], OUT why text[], OUT new_pos bigint, OUT need_bytes bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_ids bigint[];
    v_list bigint[];    -- the same, where they are not consecutive
    v_fits boolean;
BEGIN
    SELECT array_agg(f.fact_id) INTO v_ids
      FROM (SELECT x.fact_id FROM outbox.fresh x
             WHERE x.target_id = p_target AND x.fact_id > p_pos
             ORDER BY x.fact_id LIMIT p_limit) f;
    v_list := outbox._claim_list(v_ids);
    -- consecutive facts are one range, not a descent for each
    SELECT sum(g.bytes),
           sum(g.bytes) <= p_max_bytes AND max(g.largest) <= p_budget_bytes
           AND coalesce(min(g.authority_seq) >= p_lapse, true)
           AND bool_and(EXISTS (SELECT FROM outbox.graph y WHERE y.graph_id = g.graph_id))
      INTO bytes, v_fits
      FROM (SELECT x.graph_id, sum(x.frame_bytes) AS bytes, max(x.frame_bytes) AS largest,
                   min(x.authority_seq) AS authority_seq
              FROM (SELECT r.graph_id, r.frame_bytes, r.authority_seq FROM outbox.fact r
                     WHERE v_list IS NULL
                       AND r.fact_id BETWEEN v_ids[1] AND v_ids[cardinality(v_ids)]
                    UNION ALL
                    SELECT r.graph_id, r.frame_bytes, r.authority_seq FROM outbox.fact r
                     WHERE r.fact_id = ANY (v_list)) x
             GROUP BY x.graph_id) g;
    IF v_fits THEN
        fresh_ids := v_ids;
        new_pos := v_ids[cardinality(v_ids)];
        suspects := 0;
    END IF;
END
$$;

-- outbox.claim(...): hands due deliveries to a worker under a lease.
--   worker        the daemon's uuid of this start
--   target_ids, limits, lease_ms, max_crashes   one element for each lane, in
--                 the order in which the budget is offered to them
--   max_bytes     what the daemon's memory budget has free now
--   budget_bytes  the whole of it: what exceeds it is left to other daemons
--   suspects      how many deliveries of crash_count >= 2 it may add (0 or 1)
-- Rows with answer 'item' carry a delivery, its frozen identity and the body;
-- then one row for each lane says how it ended:
--   items | empty (next_due_ms) | busy (another claimer holds it) |
--   too_big (need_bytes: the first does not fit) | paused | inactive
-- Locks: lanes in the order given, never waiting; expired claims and due
-- exceptions, never waiting.  Send it again after a lost link: what the lost
-- call claimed runs out of its lease.
CREATE OR REPLACE FUNCTION outbox.claim(p_worker uuid, p_target_ids bigint[], p_limits int[],
    p_lease_ms bigint[], p_max_crashes int[], p_max_bytes bigint, p_budget_bytes bigint,
    p_suspects int)
RETURNS TABLE (target_id bigint, answer text, claim_id uuid, next_due_ms bigint, need_bytes bigint,
    ord int, fact_id bigint, event_id uuid, generation int, attempt int, crash_count int,
    contract_id text, contract_version text, workspace text, subject text, occurred_at text,
    headers text, graph_fingerprint text, frame_bytes bigint, age_ms bigint, body text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET TimeZone = 'UTC'
AS $$
#variable_conflict use_column
DECLARE
    gates record;
    p record;
    v_pos bigint;
    v_low bigint;
    v_clear bigint;     -- up to here no publisher is under way
    v_lapse bigint;     -- authority seq of the last one
    v_now timestamptz;
    v_expires timestamptz;
    v_claim uuid;
    v_taken int;
    v_n int;
    v_list bigint[];    -- its facts, where they are not consecutive
    v_plain boolean;    -- nothing but fresh rows can be due
    v_bytes bigint := p_max_bytes;
    v_suspects int := coalesce(p_suspects, 0);
    v_virgin boolean := pg_current_xact_id_if_assigned() IS NULL;
BEGIN
    PERFORM outbox._need_read_committed();
    IF p_worker IS NULL THEN
        RAISE EXCEPTION 'worker is null' USING ERRCODE = '22004';
    END IF;
    FOR gates IN
        SELECT g.*, p_limits[g.n] AS room, p_lease_ms[g.n] AS lease_ms,
               p_max_crashes[g.n] AS max_crashes,
               CASE WHEN v_virgin AND g.answer = 'work' THEN (
                   SELECT f.fact_id FROM outbox.fresh f
                    WHERE f.target_id = g.target_id AND f.fact_id > g.seen_pos
                    ORDER BY f.fact_id DESC LIMIT 1) END AS seen_last
          FROM outbox._claim_gate(p_target_ids) g
    LOOP
        target_id := gates.target_id;
        answer := gates.answer;
        next_due_ms := gates.next_due_ms;
        need_bytes := NULL;
        claim_id := NULL;
        ord := NULL; fact_id := NULL; event_id := NULL; generation := NULL; attempt := NULL;
        IF answer <> 'work' THEN
            RETURN NEXT;
            CONTINUE;
        END IF;
        -- the lock, and nothing else: all below reads what is newer than it
        SELECT l.pos INTO v_pos FROM outbox.lane l
         WHERE l.target_id = gates.target_id FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            answer := 'busy';
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF NOT EXISTS (SELECT FROM outbox.target t
                         JOIN outbox.installation i ON i.installation_id = t.installation_id
                        WHERE t.target_id = gates.target_id AND i.state IN ('active', 'retained')) THEN
            answer := 'inactive';
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF gates.reap THEN
            PERFORM outbox._reap_lane(gates.target_id, p_worker);
        END IF;
        IF gates.sweep THEN
            PERFORM outbox._sweep_lane(gates.target_id, CASE WHEN v_virgin THEN gates.seen_pos END);
        END IF;
        -- where nothing is in doubt and no transaction older than ours runs,
        -- nothing up to the last one seen before ours began can come late
        SELECT l.pos, l.low,
               (SELECT x.authority_seq FROM outbox.lapse x WHERE x.target_id = gates.target_id
                 ORDER BY x.authority_seq DESC LIMIT 1),
               CASE WHEN gates.seen_last IS NOT NULL AND l.low = l.pos
                         AND pg_snapshot_xmin(pg_current_snapshot()) = pg_current_xact_id()
                    THEN gates.seen_last END
          INTO v_pos, v_low, v_lapse, v_clear
          FROM outbox.lane l WHERE l.target_id = gates.target_id;
        v_plain := NOT (gates.due OR gates.reap OR gates.sweep);

        FOR v_round IN 1..10 LOOP
            IF v_plain THEN
                p := outbox._claim_run(gates.target_id, gates.room, v_bytes, p_budget_bytes, v_pos,
                    v_lapse);
                v_plain := p.fresh_ids IS NOT NULL;
            END IF;
            IF NOT v_plain THEN
                p := outbox._claim_pick(gates.target_id, gates.room,
                    CASE WHEN v_lapse IS NOT NULL THEN greatest(gates.room, 500) ELSE gates.room END,
                    v_bytes, p_budget_bytes, v_suspects, v_lapse IS NOT NULL, v_pos);
            END IF;
            IF p.aside IS NOT NULL THEN
                PERFORM outbox._set_aside(gates.target_id, p.aside, p.why);
            END IF;
            IF p.new_pos > v_pos THEN
                v_low := CASE WHEN v_clear > v_low THEN least(v_clear, p.new_pos) ELSE v_low END;
                UPDATE outbox.lane l
                   SET pos = p.new_pos, low = v_low, check_pos = greatest(l.check_pos, v_low)
                 WHERE l.target_id = gates.target_id;
                v_pos := p.new_pos;
            END IF;
            v_taken := coalesce(cardinality(p.fresh_ids), 0) + coalesce(cardinality(p.exception_ids), 0);
            EXIT WHEN v_taken > 0 OR p.aside IS NULL;
        END LOOP;

        IF v_taken > 0 THEN
            v_claim := gen_random_uuid();
            v_now := clock_timestamp();
            v_expires := v_now + gates.lease_ms * interval '1 millisecond';
            v_bytes := v_bytes - p.bytes;
            v_suspects := v_suspects - p.suspects;
            IF p.fresh_ids IS NOT NULL THEN
                v_n := cardinality(p.fresh_ids);
                v_list := outbox._claim_list(p.fresh_ids);
                INSERT INTO outbox.claim (claim_id, worker, target_id, claimed_at, expires_at, open,
                    items, first_id, fact_ids)
                VALUES (v_claim, p_worker, gates.target_id, v_now, v_expires, v_n, v_n, p.fresh_ids[1],
                    v_list);
                -- one by one beside each fact: to join all of them might be to join them first
                RETURN QUERY
                SELECT gates.target_id, 'item', v_claim, NULL::bigint, NULL::bigint,
                       x.ord, x.fact_id, x.event_id, 1, 1, 0,
                       k.contract_id, k.contract_version, x.workspace, x.subject,
                       to_char(x.occurred_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                       x.headers::text, g.fingerprint, x.frame_bytes,
                       (date_part('epoch', v_now - x.published_at) * 1000)::bigint, x.body::text
                  FROM (SELECT (f.fact_id - p.fresh_ids[1])::int + 1 AS ord, f.* FROM outbox.fact f
                         WHERE v_list IS NULL
                           AND f.fact_id BETWEEN p.fresh_ids[1] AND p.fresh_ids[v_n]
                        UNION ALL
                        SELECT u.n::int, f.* FROM unnest(v_list) WITH ORDINALITY u(id, n)
                         CROSS JOIN LATERAL (SELECT * FROM outbox.fact f WHERE f.fact_id = u.id OFFSET 0) f) x
                 CROSS JOIN LATERAL (SELECT * FROM outbox.contract k
                                      WHERE k.contract_key = x.contract_key OFFSET 0) k
                 CROSS JOIN LATERAL (SELECT * FROM outbox.graph g WHERE g.graph_id = x.graph_id OFFSET 0) g;
            END IF;
            IF p.exception_ids IS NOT NULL THEN
                UPDATE outbox.exception e
                   SET status = 'claimed', attempt_count = least(e.attempt_count, 2147483646) + 1,
                       due_at = NULL, expired = false, oversize_since = NULL, claim_id = v_claim,
                       claimed_by = p_worker, claimed_at = v_now, claim_expires_at = v_expires,
                       max_crashes = gates.max_crashes
                  FROM (SELECT gates.target_id AS target_id, y.id FROM unnest(p.exception_ids) y(id)
                        OFFSET 0) u
                 WHERE e.target_id = ANY (ARRAY[u.target_id]) AND e.fact_id = u.id;
                RETURN QUERY
                SELECT gates.target_id, 'item', v_claim, NULL::bigint, NULL::bigint, 0,
                       x.fact_id, x.event_id, e.generation, e.attempt_count, e.crash_count,
                       k.contract_id, k.contract_version, x.workspace, x.subject,
                       to_char(x.occurred_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                       x.headers::text, g.fingerprint, x.frame_bytes,
                       (date_part('epoch', v_now - x.published_at) * 1000)::bigint, x.body::text
                  FROM (SELECT gates.target_id AS target_id, y.id FROM unnest(p.exception_ids) y(id)
                        OFFSET 0) u
                  JOIN outbox.exception e ON e.target_id = ANY (ARRAY[u.target_id]) AND e.fact_id = u.id
                  JOIN outbox.fact x ON x.fact_id = ANY (ARRAY[u.id])
                  JOIN outbox.contract k ON k.contract_key = ANY (ARRAY[x.contract_key])
                  JOIN outbox.graph g ON g.graph_id = ANY (ARRAY[x.graph_id]);
            END IF;
            answer := 'items';
        ELSIF p.need_bytes IS NOT NULL THEN
            answer := 'too_big';
            need_bytes := p.need_bytes;
        ELSE
            answer := 'empty';
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
