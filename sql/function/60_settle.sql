-- 60_settle.sql: the verdicts of a worker, fenced by the claim.

-- outbox._check_settle(...): 22023 unless the arrays fit and the words are known.
CREATE OR REPLACE FUNCTION outbox._check_settle(p_sizes int[], p_verdicts text[], p_reasons text[])
RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_size int;
BEGIN
    FOREACH v_size IN ARRAY p_sizes LOOP
        IF v_size IS DISTINCT FROM cardinality(p_verdicts) THEN
            RAISE EXCEPTION 'settle: arrays differ in length' USING ERRCODE = '22023';
        END IF;
    END LOOP;
    IF 'ack' = ALL (p_verdicts) THEN -- as usual: ten times as quick as one by one
        RETURN;
    END IF;
    FOR i IN 1..coalesce(cardinality(p_verdicts), 0) LOOP
        IF p_verdicts[i] IS NULL OR p_verdicts[i] NOT IN ('ack', 'retry', 'pause', 'release') THEN
            RAISE EXCEPTION 'settle: item %: verdict "%" is not ack, retry, pause or release',
                i, p_verdicts[i] USING ERRCODE = '22023';
        ELSIF p_verdicts[i] = 'pause' AND (p_reasons[i] IS NULL OR p_reasons[i] NOT IN (
                'retry_budget_exhausted', 'crash_loop', 'handler_rejected', 'result_rejected',
                'exceeds_memory_budget')) THEN
            RAISE EXCEPTION 'settle: item %: "%" is not a reason for a worker to pause', i, p_reasons[i]
                USING ERRCODE = '22023';
        END IF;
    END LOOP;
END
$$;

-- outbox._is_crash(outcome): a process died with the delivery in it.  It is
-- counted whatever the verdict: who died with another's call is released.
CREATE OR REPLACE FUNCTION outbox._is_crash(p_outcome text) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$ SELECT coalesce(p_outcome IN ('crashed', 'oom', 'protocol_error'), false) $$;

-- outbox._hold_exceptions(target_ids, fact_ids): locks the full rows of these
-- deliveries, where they have one, in the order of their keys.
CREATE OR REPLACE FUNCTION outbox._hold_exceptions(p_target_ids bigint[], p_fact_ids bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    PERFORM FROM (SELECT DISTINCT u.target_id, u.fact_id
                    FROM unnest(p_target_ids, p_fact_ids) u(target_id, fact_id) ORDER BY 1, 2) i
      CROSS JOIN LATERAL (SELECT FROM outbox.exception e
                           WHERE e.target_id = i.target_id AND e.fact_id = i.fact_id FOR UPDATE) e;
END
$$;

-- outbox._settle_runs(...): all of them acked, where each claim's form a run of
-- consecutive facts, as is usual: judged and written claim by claim, at half the
-- cost of one by one.  The caller holds the claims, which are whole, and has read
-- the clock after that.  Answers which items were written; NULL: not such a
-- set, nothing is done.
CREATE OR REPLACE FUNCTION outbox._settle_runs(p_worker uuid, p_claim_ids uuid[], p_target_ids bigint[],
    p_fact_ids bigint[], p_ords int[], p_now timestamptz)
RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_runs record;
    v_gone record;
    v_facts bigint[] := '{}';
    v_claims uuid[] := '{}';
BEGIN
    SELECT array_agg(r.claim_id) AS claim_ids, array_agg(r.target_id) AS target_ids,
           array_agg(r.first) AS firsts, array_agg(r.last) AS lasts, sum(r.n) AS n
      INTO v_runs
      FROM (SELECT i.claim_id, i.target_id, min(i.fact_id) AS first, max(i.fact_id) AS last,
                   max(i.ord) AS last_ord,
                   min(i.fact_id - i.ord) AS before, max(i.fact_id - i.ord) AS before_too,
                   count(*) AS n, count(DISTINCT i.fact_id) AS facts
              FROM unnest(p_claim_ids, p_target_ids, p_fact_ids, p_ords)
                   i(claim_id, target_id, fact_id, ord)
             WHERE i.fact_id > 0 AND i.ord > 0 -- what is not is missed in the sum
             GROUP BY i.claim_id, i.target_id) r
     CROSS JOIN LATERAL (SELECT * FROM outbox.claim x WHERE x.claim_id = r.claim_id OFFSET 0) c
     WHERE c.worker = p_worker AND c.target_id = r.target_id AND c.expires_at > p_now
       -- the claim tells its facts by the first, and each is the one its ord says
       AND c.fact_ids IS NULL AND r.before = c.first_id - 1 AND r.before_too = c.first_id - 1
       AND r.last_ord <= c.items
       AND r.facts = r.n AND r.last - r.first = r.n - 1;
    IF v_runs.n IS DISTINCT FROM cardinality(p_claim_ids) THEN
        RETURN NULL;
    END IF;
    FOR v_gone IN
        WITH gone AS (
            DELETE FROM outbox.fresh f
             USING unnest(v_runs.claim_ids, v_runs.target_ids, v_runs.firsts, v_runs.lasts)
                   r(claim_id, target_id, first, last)
             WHERE f.target_id = ANY (ARRAY[r.target_id]) AND f.fact_id BETWEEN r.first AND r.last
            RETURNING f.fact_id, f.target_id, r.claim_id
        ), acked AS (
            INSERT INTO outbox.receipt (fact_id, target_id, generation, attempt_count, claim_id, worker,
                delivered_at)
            SELECT g.fact_id, g.target_id, 1, 1, g.claim_id, p_worker, p_now FROM gone g
        )
        SELECT g.claim_id, array_agg(g.fact_id) AS fact_ids, count(*) AS n FROM gone g GROUP BY g.claim_id
    LOOP
        PERFORM outbox._claim_reduce(v_gone.claim_id, v_gone.n, false);
        v_facts := v_facts || v_gone.fact_ids;
        v_claims := v_claims || array_fill(v_gone.claim_id, ARRAY[v_gone.n::int]);
    END LOOP;
    IF cardinality(v_facts) = cardinality(p_claim_ids) THEN
        RETURN ARRAY(SELECT generate_series(1, cardinality(p_claim_ids)::bigint));
    END IF;
    -- some of it was settled before: it was sent again after a lost link
    RETURN ARRAY(
        SELECT max(w.n) FROM (
            SELECT * FROM unnest(p_claim_ids, p_fact_ids) WITH ORDINALITY i(claim_id, fact_id, n)
            UNION ALL
            SELECT *, NULL FROM unnest(v_claims, v_facts)) w
         GROUP BY w.claim_id, w.fact_id HAVING count(*) = 2);
END
$$;

-- outbox._settle_acked(...): those acked whose delivery still has its fresh row.
-- The caller holds the claims and has read the clock after that.  Answers,
-- for each claim, which items were written.
CREATE OR REPLACE FUNCTION outbox._settle_acked(p_worker uuid, p_claim_ids uuid[],
    p_target_ids bigint[], p_fact_ids bigint[], p_ords int[], p_verdicts text[], p_now timestamptz)
RETURNS TABLE (claim_id uuid, items bigint[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH gone AS (
        DELETE FROM outbox.fresh f
         USING unnest(p_claim_ids, p_target_ids, p_fact_ids, p_ords, p_verdicts)
               WITH ORDINALITY i(claim_id, target_id, fact_id, ord, verdict, n)
         -- _claim_nth, written out: here a call for each delivery would be felt.
         -- By its key, not by target and expiry, which looks as cheap with few claims
         CROSS JOIN LATERAL (SELECT x.worker, x.target_id, x.expires_at, CASE
                WHEN x.fact_ids IS NOT NULL THEN x.fact_ids[i.ord]
                WHEN i.ord BETWEEN 1 AND x.items THEN x.first_id + i.ord - 1 END AS fact_id
                FROM outbox.claim x WHERE x.claim_id = i.claim_id OFFSET 0) c
         WHERE i.verdict = 'ack'
           AND c.worker = p_worker AND c.target_id = i.target_id AND c.expires_at > p_now
           AND c.fact_id = i.fact_id
           AND f.target_id = ANY (ARRAY[i.target_id]) AND f.fact_id = i.fact_id
        RETURNING i.fact_id, i.target_id, i.claim_id, i.n
    ), acked AS (
        INSERT INTO outbox.receipt (fact_id, target_id, generation, attempt_count, claim_id, worker,
            delivered_at)
        SELECT g.fact_id, g.target_id, 1, 1, g.claim_id, p_worker, p_now FROM gone g
    )
    SELECT g.claim_id, array_agg(g.n) FROM gone g GROUP BY g.claim_id;
END
$$;

-- outbox._settle_others(...): the same for every other verdict.
CREATE OR REPLACE FUNCTION outbox._settle_others(p_worker uuid, p_claim_ids uuid[], p_target_ids bigint[],
    p_fact_ids bigint[], p_ords int[], p_verdicts text[], p_delays_ms bigint[], p_reasons text[],
    p_outcomes text[], p_run_ms bigint[], p_exit_codes int[], p_signals int[], p_errors text[],
    p_now timestamptz)
RETURNS TABLE (claim_id uuid, items bigint[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH item AS MATERIALIZED (
        SELECT * FROM unnest(p_claim_ids, p_target_ids, p_fact_ids, p_ords, p_verdicts, p_delays_ms,
                p_reasons, p_outcomes, p_run_ms, p_exit_codes, p_signals, p_errors)
            WITH ORDINALITY i(claim_id, target_id, fact_id, ord, verdict, delay_ms, reason, outcome,
                run_ms, exit_code, signal, error, n)
    ), gone AS (
        DELETE FROM outbox.fresh f USING item i
         CROSS JOIN LATERAL (SELECT x.worker, x.target_id, x.expires_at,
                outbox._claim_nth(x, i.ord) AS fact_id
                FROM outbox.claim x WHERE x.claim_id = i.claim_id OFFSET 0) c
         WHERE i.verdict <> 'ack'
           AND c.worker = p_worker AND c.target_id = i.target_id AND c.expires_at > p_now
           AND c.fact_id = i.fact_id
           AND f.target_id = ANY (ARRAY[i.target_id]) AND f.fact_id = i.fact_id
        RETURNING i.*
    ), told AS (
        INSERT INTO outbox.attempt (fact_id, target_id, generation, attempt, outcome, verdict,
            claim_id, worker, ended_at, run_ms, exit_code, signal, error)
        SELECT g.fact_id, g.target_id, 1, 1, g.outcome, g.verdict, g.claim_id, p_worker, p_now,
               g.run_ms, g.exit_code, g.signal, outbox._clip(g.error)
          FROM gone g
    ), kept AS (
        INSERT INTO outbox.exception (target_id, fact_id, status, attempt_count, crash_count,
            authority_seq, available_at, due_at, pause_reason, paused_at, last_error)
        SELECT g.target_id, g.fact_id, CASE g.verdict WHEN 'pause' THEN 'paused' ELSE 'pending' END,
               (g.verdict <> 'release')::int,
               outbox._is_crash(g.outcome)::int,
               x.authority_seq, d.at, CASE WHEN g.verdict <> 'pause' THEN d.at END,
               CASE g.verdict WHEN 'pause' THEN g.reason END,
               CASE g.verdict WHEN 'pause' THEN p_now END,
               CASE WHEN g.verdict <> 'release' OR outbox._is_crash(g.outcome)
                    THEN outbox._clip(g.error) END
          FROM gone g
          JOIN outbox.fact x ON x.fact_id = ANY (ARRAY[g.fact_id])
         CROSS JOIN LATERAL (SELECT CASE
               WHEN g.verdict = 'retry' OR g.delay_ms > 0 THEN outbox._later(g.delay_ms)
               ELSE x.published_at END AS at) d
    )
    SELECT g.claim_id, array_agg(g.n) FROM gone g GROUP BY g.claim_id;
END
$$;

-- outbox._settle_exception(...): the same for items that have a full row,
-- which carries the claim itself.  The caller holds the rows.
CREATE OR REPLACE FUNCTION outbox._settle_exception(p_worker uuid, p_claim_ids uuid[],
    p_target_ids bigint[], p_fact_ids bigint[], p_verdicts text[], p_delays_ms bigint[],
    p_reasons text[], p_outcomes text[], p_run_ms bigint[], p_exit_codes int[], p_signals int[],
    p_errors text[], p_now timestamptz)
RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_items bigint[];
BEGIN
    WITH item AS MATERIALIZED (
        SELECT i.*, e.generation, e.attempt_count, e.available_at
          FROM unnest(p_claim_ids, p_target_ids, p_fact_ids, p_verdicts, p_delays_ms, p_reasons,
                p_outcomes, p_run_ms, p_exit_codes, p_signals, p_errors)
               WITH ORDINALITY i(claim_id, target_id, fact_id, verdict, delay_ms, reason, outcome,
                run_ms, exit_code, signal, error, n)
          JOIN outbox.exception e ON e.target_id = ANY (ARRAY[i.target_id]) AND e.fact_id = i.fact_id
         WHERE e.status = 'claimed' AND e.claim_id = i.claim_id AND e.claimed_by = p_worker
           AND e.claim_expires_at > p_now AND NOT e.expired
    ), gone AS (
        DELETE FROM outbox.exception e USING item i
         WHERE e.target_id = ANY (ARRAY[i.target_id]) AND e.fact_id = i.fact_id AND i.verdict = 'ack'
        RETURNING i.*
    ), acked AS (
        INSERT INTO outbox.receipt (fact_id, target_id, generation, attempt_count, claim_id, worker,
            delivered_at)
        SELECT g.fact_id, g.target_id, g.generation, g.attempt_count, g.claim_id, p_worker, p_now
          FROM gone g
    ), kept AS (
        UPDATE outbox.exception e
           SET status = CASE i.verdict WHEN 'pause' THEN 'paused' ELSE 'pending' END,
               attempt_count = e.attempt_count - (i.verdict = 'release')::int,
               crash_count = e.crash_count + outbox._is_crash(i.outcome)::int,
               available_at = d.at, due_at = CASE WHEN i.verdict <> 'pause' THEN d.at END,
               claim_id = NULL, claimed_by = NULL, claimed_at = NULL, claim_expires_at = NULL,
               pause_reason = CASE i.verdict WHEN 'pause' THEN i.reason END,
               paused_at = CASE i.verdict WHEN 'pause' THEN p_now END,
               last_error = CASE WHEN i.verdict = 'release' AND NOT outbox._is_crash(i.outcome)
                            THEN e.last_error
                            ELSE coalesce(outbox._clip(i.error), e.last_error) END
          FROM item i CROSS JOIN LATERAL (SELECT CASE
               WHEN i.verdict = 'retry' OR i.delay_ms > 0 THEN outbox._later(i.delay_ms)
               ELSE least(i.available_at, p_now) END AS at) d
         WHERE e.target_id = ANY (ARRAY[i.target_id]) AND e.fact_id = i.fact_id AND i.verdict <> 'ack'
        RETURNING i.*
    ), told AS (
        INSERT INTO outbox.attempt (fact_id, target_id, generation, attempt, outcome, verdict,
            claim_id, worker, ended_at, run_ms, exit_code, signal, error)
        SELECT k.fact_id, k.target_id, k.generation, k.attempt_count, k.outcome, k.verdict,
               k.claim_id, p_worker, p_now, k.run_ms, k.exit_code, k.signal, outbox._clip(k.error)
          FROM kept k
    )
    SELECT array_agg(w.n) INTO v_items FROM (SELECT g.n FROM gone g UNION ALL SELECT k.n FROM kept k) w;
    RETURN v_items;
END
$$;

-- outbox._subscriber_config_fault(target, error): a handler said that it is
-- configured wrongly, which would fail for every event: its subscriber is
-- paused until an operator resumes it.
CREATE OR REPLACE FUNCTION outbox._subscriber_config_fault(p_target bigint, p_error text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_subscriber text;
BEGIN
    UPDATE outbox.subscriber s
       SET paused_at = clock_timestamp(), pause_reason = 'handler_config', paused_by = session_user
      FROM outbox.target t
     WHERE t.target_id = p_target AND s.subscriber_id = t.subscriber_id AND s.paused_at IS NULL
    RETURNING s.subscriber_id INTO v_subscriber;
    IF FOUND THEN
        PERFORM outbox._audit('subscriber_pause', v_subscriber,
            json_build_object('reason', 'handler_config', 'error', outbox._clip(p_error)));
        PERFORM pg_notify('outbox_wake', '');
    END IF;
END
$$;

-- outbox._settle_answers(..., items): what settle says of each, where items are
-- those that were written now.  Also pauses the subscribers of handlers that
-- said they are configured wrongly.
CREATE OR REPLACE FUNCTION outbox._settle_answers(p_worker uuid, p_claim_ids uuid[],
    p_target_ids bigint[], p_fact_ids bigint[], p_verdicts text[], p_reasons text[],
    p_errors text[], p_items bigint[])
RETURNS text[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_answers text[] := array_fill('claim_lost'::text, ARRAY[coalesce(cardinality(p_verdicts), 0)]);
    v_n bigint;
BEGIN
    FOREACH v_n IN ARRAY p_items LOOP
        v_answers[v_n] := 'done';
    END LOOP;
    FOR i IN 1..cardinality(v_answers) LOOP
        IF v_answers[i] = 'claim_lost' THEN
            IF (CASE WHEN p_verdicts[i] = 'ack' THEN EXISTS (
                    SELECT FROM outbox.receipt r
                     WHERE r.fact_id = p_fact_ids[i] AND r.target_id = p_target_ids[i]
                       AND r.claim_id = p_claim_ids[i] AND r.worker = p_worker)
               ELSE EXISTS (
                    SELECT FROM outbox.attempt a
                     WHERE a.fact_id = p_fact_ids[i] AND a.target_id = p_target_ids[i]
                       AND a.claim_id = p_claim_ids[i] AND a.worker = p_worker
                       AND a.verdict = p_verdicts[i]) END) THEN
                v_answers[i] := 'already';
            END IF;
        ELSIF p_verdicts[i] = 'release' AND p_reasons[i] = 'handler_config' THEN
            PERFORM outbox._subscriber_config_fault(p_target_ids[i], p_errors[i]);
        END IF;
    END LOOP;
    RETURN v_answers;
END
$$;

-- outbox.settle(...): records a set of verdicts.  Arrays of equal length, one
-- element for each item; reasons, run_ms, exit codes, signals and errors may
-- hold NULL.
--   ords       as answered by claim (0: an exception)
--   verdicts   ack | retry | pause | release
--   delays_ms  retry: until due again (never a time: the database's clock
--              rules); release: 0 for "at once"
--   reasons    pause: its pause_reason; release with 'handler_config' also
--              pauses the subscriber
--   outcomes   how the attempt went, for the attempt history; crashed, oom and
--              protocol_error raise crash_count, whatever the verdict
-- Answers in the same order: done | already (this claim recorded this very
-- verdict: sent again after a lost link) | claim_lost (nothing of it is
-- written, no other item is affected).
-- The fence: same worker, same claim, lease not over by the wall clock read
-- after the locks are held, in a statement of its own.
-- Locks: claims by claim_id, then exceptions by key.
CREATE OR REPLACE FUNCTION outbox.settle(p_worker uuid, p_claim_ids uuid[], p_target_ids bigint[],
    p_fact_ids bigint[], p_ords int[], p_verdicts text[], p_delays_ms bigint[], p_reasons text[],
    p_outcomes text[], p_run_ms bigint[], p_exit_codes int[], p_signals int[], p_errors text[])
RETURNS text[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_acks boolean := 'ack' = ALL (p_verdicts);
    v_whole int;
    v_now timestamptz;
    v_left record;
    v_items bigint[]; -- what was written
BEGIN
    PERFORM outbox._need_read_committed();
    PERFORM outbox._check_settle(ARRAY[cardinality(p_claim_ids), cardinality(p_target_ids),
        cardinality(p_fact_ids), cardinality(p_ords), cardinality(p_delays_ms),
        cardinality(p_reasons), cardinality(p_outcomes), cardinality(p_run_ms),
        cardinality(p_exit_codes), cardinality(p_signals), cardinality(p_errors)],
        p_verdicts, p_reasons);

    SELECT count(*) FILTER (WHERE NOT c.split) INTO v_whole FROM (
        SELECT x.split FROM outbox.claim x WHERE x.claim_id = ANY (p_claim_ids)
         ORDER BY x.claim_id FOR UPDATE) c;
    -- every item of a whole claim is fresh; only others can have a full row
    IF 0 = ANY (p_ords) OR v_whole < (SELECT count(DISTINCT u.id) FROM unnest(p_claim_ids) u(id)) THEN
        PERFORM outbox._hold_exceptions(p_target_ids, p_fact_ids);
        v_whole := NULL;
    END IF;
    -- a statement of its own: the locks may have made us wait past a lease
    v_now := clock_timestamp();

    IF v_acks AND v_whole IS NOT NULL THEN
        v_items := outbox._settle_runs(p_worker, p_claim_ids, p_target_ids, p_fact_ids, p_ords, v_now);
    END IF;
    IF v_items IS NULL THEN
        v_items := '{}';
        FOR v_left IN
            SELECT * FROM outbox._settle_acked(p_worker, p_claim_ids, p_target_ids, p_fact_ids, p_ords,
                p_verdicts, v_now)
        LOOP
            PERFORM outbox._claim_reduce(v_left.claim_id, cardinality(v_left.items), false);
            v_items := v_items || v_left.items;
        END LOOP;
    END IF;
    IF cardinality(v_items) = cardinality(p_verdicts) THEN -- as usual
        RETURN array_fill('done'::text, ARRAY[cardinality(p_verdicts)]);
    END IF;
    IF NOT v_acks THEN
        FOR v_left IN
            SELECT * FROM outbox._settle_others(p_worker, p_claim_ids, p_target_ids, p_fact_ids,
                p_ords, p_verdicts, p_delays_ms, p_reasons, p_outcomes, p_run_ms, p_exit_codes,
                p_signals, p_errors, v_now)
        LOOP
            PERFORM outbox._claim_reduce(v_left.claim_id, cardinality(v_left.items), false);
            v_items := v_items || v_left.items;
        END LOOP;
    END IF;
    IF v_whole IS NULL THEN
        v_items := v_items || outbox._settle_exception(p_worker, p_claim_ids, p_target_ids,
            p_fact_ids, p_verdicts, p_delays_ms, p_reasons, p_outcomes, p_run_ms, p_exit_codes,
            p_signals, p_errors, v_now);
    END IF;
    RETURN outbox._settle_answers(p_worker, p_claim_ids, p_target_ids, p_fact_ids, p_verdicts,
        p_reasons, p_errors, v_items);
END
$$;

-- outbox.renew(...): a longer lease, counted from now, for single deliveries
-- of a claim.  Each leaves its batch and carries its claim itself from then
-- on.  Answers in order: done | claim_lost.  The fence is that of settle.
CREATE OR REPLACE FUNCTION outbox.renew(p_worker uuid, p_claim_ids uuid[], p_target_ids bigint[],
    p_fact_ids bigint[], p_ords int[], p_lease_ms bigint[])
RETURNS text[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_answers text[] := '{}';
    v_now timestamptz;
    v_expires timestamptz;
    v_done boolean;
BEGIN
    PERFORM outbox._need_read_committed();
    IF cardinality(p_target_ids) IS DISTINCT FROM cardinality(p_claim_ids)
       OR cardinality(p_fact_ids) IS DISTINCT FROM cardinality(p_claim_ids)
       OR cardinality(p_ords) IS DISTINCT FROM cardinality(p_claim_ids)
       OR cardinality(p_lease_ms) IS DISTINCT FROM cardinality(p_claim_ids) THEN
        RAISE EXCEPTION 'renew: arrays differ in length' USING ERRCODE = '22023';
    END IF;
    PERFORM FROM outbox.claim c WHERE c.claim_id = ANY (p_claim_ids) ORDER BY c.claim_id FOR UPDATE;
    PERFORM outbox._hold_exceptions(p_target_ids, p_fact_ids);
    v_now := clock_timestamp();
    FOR i IN 1..coalesce(cardinality(p_claim_ids), 0) LOOP
        v_expires := v_now + p_lease_ms[i] * interval '1 millisecond';
        WITH gone AS (
            DELETE FROM outbox.fresh f USING outbox.claim c
             WHERE c.claim_id = p_claim_ids[i] AND c.worker = p_worker
               AND c.target_id = p_target_ids[i] AND c.expires_at > v_now
               AND outbox._claim_nth(c, p_ords[i]) = p_fact_ids[i]
               AND f.target_id = ANY (ARRAY[c.target_id]) AND f.fact_id = p_fact_ids[i]
            RETURNING f.fact_id, c.claimed_at
        )
        INSERT INTO outbox.exception (target_id, fact_id, status, attempt_count, authority_seq,
            available_at, claim_id, claimed_by, claimed_at, claim_expires_at)
        SELECT p_target_ids[i], g.fact_id, 'claimed', 1, x.authority_seq, x.published_at,
               p_claim_ids[i], p_worker, g.claimed_at, v_expires
          FROM gone g JOIN outbox.fact x ON x.fact_id = ANY (ARRAY[g.fact_id]);
        v_done := FOUND;
        IF v_done THEN
            PERFORM outbox._claim_reduce(p_claim_ids[i], 1, true);
        ELSE
            UPDATE outbox.exception e SET claim_expires_at = greatest(v_expires, e.claim_expires_at)
             WHERE e.target_id = p_target_ids[i] AND e.fact_id = p_fact_ids[i]
               AND e.status = 'claimed' AND NOT e.expired AND e.claim_id = p_claim_ids[i]
               AND e.claimed_by = p_worker AND e.claim_expires_at > v_now;
            v_done := FOUND;
        END IF;
        v_answers[i] := CASE WHEN v_done THEN 'done' ELSE 'claim_lost' END;
    END LOOP;
    RETURN v_answers;
END
$$;
