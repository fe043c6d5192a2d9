-- 80_operator.sql: what an operator may do to single deliveries, to
-- subscribers and to a dead daemon's claims.  All of it is audited.

-- outbox._find(event, subscriber): the fact and the target that the
-- subscriber's delivery is bound to, or OB010.  A fact has at most one target
-- of a subscriber, for a graph with two does not compile.  (OFFSET 0: look
-- by key, never hash a whole table.)
CREATE OR REPLACE FUNCTION outbox._find(p_event uuid, p_subscriber text,
    OUT fact_id bigint, OUT target_id bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    SELECT x.fact_id, t.target_id INTO _find.fact_id, _find.target_id
      FROM outbox.fact x
      JOIN outbox.target t ON t.subscriber_id = p_subscriber
     WHERE x.event_id = p_event
       AND (EXISTS (SELECT FROM outbox.fresh f
                     WHERE f.target_id = t.target_id AND f.fact_id = x.fact_id OFFSET 0)
            OR EXISTS (SELECT FROM outbox.exception e
                        WHERE e.target_id = t.target_id AND e.fact_id = x.fact_id OFFSET 0)
            OR EXISTS (SELECT FROM outbox.receipt r
                        WHERE r.target_id = t.target_id AND r.fact_id = x.fact_id OFFSET 0)
            OR EXISTS (SELECT FROM outbox.discarded d
                        WHERE d.target_id = t.target_id AND d.fact_id = x.fact_id OFFSET 0));
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no delivery of event % to %', p_event, p_subscriber
            USING ERRCODE = 'OB010', HINT = 'outboxctl event show EVENT';
    END IF;
END
$$;

-- outbox._hold(event, subscriber, generation): finds an unfinished delivery,
-- locks lane, claim and delivery in that order, and gives it a full row if it
-- had none, so that the operator functions deal with one kind of row only.
-- What has lost its authority is written down as paused on the way.
-- NULL row: it is finished.  OB012: another generation is meant.
CREATE OR REPLACE FUNCTION outbox._hold(p_event uuid, p_subscriber text, p_generation int)
RETURNS outbox.exception
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    w record;
    c outbox.claim;
    e outbox.exception;
    x outbox.fact;
    v_reason text;
BEGIN
    SELECT * INTO w FROM outbox._find(p_event, p_subscriber);
    PERFORM FROM outbox.lane l WHERE l.target_id = w.target_id FOR NO KEY UPDATE;
    SELECT * INTO x FROM outbox.fact y WHERE y.fact_id = w.fact_id;
    SELECT * INTO c FROM outbox.claim y
     WHERE y.target_id = w.target_id AND w.fact_id = ANY (outbox._claim_ids(y)) FOR UPDATE;
    DELETE FROM outbox.fresh f WHERE f.target_id = w.target_id AND f.fact_id = w.fact_id;
    IF FOUND AND c.claim_id IS NOT NULL THEN
        INSERT INTO outbox.exception (target_id, fact_id, status, attempt_count, authority_seq,
            available_at, claim_id, claimed_by, claimed_at, claim_expires_at)
        VALUES (w.target_id, w.fact_id, 'claimed', 1, x.authority_seq, x.published_at,
            c.claim_id, c.worker, c.claimed_at, c.expires_at);
        PERFORM outbox._claim_reduce(c.claim_id, 1, true);
    ELSIF FOUND THEN
        INSERT INTO outbox.exception (target_id, fact_id, status, attempt_count, authority_seq,
            available_at, due_at)
        VALUES (w.target_id, w.fact_id, 'pending', 0, x.authority_seq, x.published_at, x.published_at);
    END IF;
    SELECT * INTO e FROM outbox.exception y
     WHERE y.target_id = w.target_id AND y.fact_id = w.fact_id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF p_generation IS NOT NULL AND p_generation <> e.generation THEN
        RAISE EXCEPTION 'the delivery of event % to % is generation %, not %', p_event, p_subscriber,
            e.generation, p_generation USING ERRCODE = 'OB012';
    END IF;
    v_reason := outbox._lapse_reason(w.target_id, e.authority_seq, x.contract_key, x.workspace);
    IF v_reason IS NOT NULL AND e.pause_reason IS DISTINCT FROM v_reason THEN
        e := outbox._rewrite(e, 'paused', v_reason);
    END IF;
    RETURN e;
END
$$;

-- outbox._rewrite(row, status, reason): pending (due now) or paused, and out
-- of any claim.  The caller holds the row.
CREATE OR REPLACE FUNCTION outbox._rewrite(p_row outbox.exception, p_status text, p_reason text)
RETURNS outbox.exception
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
    UPDATE outbox.exception e
       SET status = p_status, expired = false, claim_id = NULL, claimed_by = NULL,
           claimed_at = NULL, claim_expires_at = NULL,
           available_at = CASE p_status WHEN 'pending' THEN clock.now ELSE e.available_at END,
           due_at = CASE p_status WHEN 'pending' THEN clock.now END,
           pause_reason = p_reason,
           paused_at = CASE p_status WHEN 'paused' THEN clock.now END
      FROM clock_timestamp() clock(now)
     WHERE e.target_id = p_row.target_id AND e.fact_id = p_row.fact_id
    RETURNING e.*
$$;

-- outbox._finished(event, subscriber): OB031 for an action on what is over.
CREATE OR REPLACE FUNCTION outbox._refuse_finished(p_event uuid, p_subscriber text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'the delivery of event % to % is finished', p_event, p_subscriber
        USING ERRCODE = 'OB031', HINT = 'outboxctl delivery show EVENT SUBSCRIBER';
END
$$;

-- outbox.pause(event, subscriber, generation, reason): holds one delivery
-- back.  A claim of it ends: what its worker settles afterwards is claim_lost.
-- 'paused' | 'already'.
CREATE OR REPLACE FUNCTION outbox.pause(event_id uuid, subscriber_id text,
    generation int DEFAULT NULL, reason text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    e outbox.exception;
BEGIN
    PERFORM outbox._need_read_committed();
    e := outbox._hold(pause.event_id, pause.subscriber_id, pause.generation);
    IF e.target_id IS NULL THEN
        PERFORM outbox._refuse_finished(pause.event_id, pause.subscriber_id);
    ELSIF e.status = 'paused' THEN
        RETURN 'already';
    END IF;
    PERFORM outbox._rewrite(e, 'paused', 'operator');
    PERFORM outbox._audit('pause', pause.event_id || ' ' || pause.subscriber_id,
        json_build_object('was', e.status, 'reason', pause.reason, 'claim_id', e.claim_id));
    RETURN 'paused';
END
$$;

-- outbox.resume(event, subscriber, generation, graph, handler, version):
-- pending again and due now, attempts and crashes 0, for exactly what the
-- caller names.  Refused, in this order, and it stays paused:
--   OB010 no such delivery        OB011 not paused
--   OB012 generation, graph, handler or version is another
--   OB013 the frozen graph is not known any more
--   OB014 installation neither active nor retained
--   OB015 the installation's digest is not the frozen one
--   OB016 no active grant of that installation covers it
CREATE OR REPLACE FUNCTION outbox.resume(event_id uuid, subscriber_id text, generation int,
    graph_fingerprint text, handler text, handler_version text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    e outbox.exception;
    x outbox.fact;
    t outbox.target;
    i outbox.installation;
    g outbox.graph;
    v_seq bigint;
    v_contract text;
BEGIN
    PERFORM outbox._need_read_committed();
    SELECT a.seq INTO v_seq FROM outbox.authority a FOR SHARE; -- no change until we are done
    e := outbox._hold(resume.event_id, resume.subscriber_id, NULL);
    IF e.target_id IS NULL OR e.status <> 'paused' THEN
        RAISE EXCEPTION 'the delivery of event % to % is not paused', resume.event_id, resume.subscriber_id
            USING ERRCODE = 'OB011', HINT = 'outboxctl delivery explain EVENT SUBSCRIBER';
    END IF;
    SELECT * INTO x FROM outbox.fact y WHERE y.fact_id = e.fact_id;
    SELECT * INTO t FROM outbox.target y WHERE y.target_id = e.target_id;
    SELECT * INTO i FROM outbox.installation y WHERE y.installation_id = t.installation_id;
    SELECT * INTO g FROM outbox.graph y WHERE y.graph_id = x.graph_id;
    SELECT k.contract_id || '@' || k.contract_version INTO v_contract
      FROM outbox.contract k WHERE k.contract_key = x.contract_key;
    IF resume.generation IS DISTINCT FROM e.generation
       OR resume.handler IS DISTINCT FROM t.handler
       OR resume.handler_version IS DISTINCT FROM t.handler_version
       OR resume.graph_fingerprint IS NULL
       OR resume.graph_fingerprint <> g.fingerprint THEN
        RAISE EXCEPTION 'the paused delivery is generation %, handler % version %, graph %',
            e.generation, t.handler, t.handler_version, coalesce(g.fingerprint, 'unknown')
            USING ERRCODE = 'OB012', HINT = 'resume exactly what is paused: outboxctl delivery show EVENT SUBSCRIBER';
    ELSIF g.graph_id IS NULL THEN
        RAISE EXCEPTION 'the graph that event % froze is not known any more', resume.event_id
            USING ERRCODE = 'OB013';
    ELSIF i.state NOT IN ('active', 'retained') THEN
        RAISE EXCEPTION 'installation %@% is %', i.plugin_id, i.plugin_version, i.state
            USING ERRCODE = 'OB014', HINT = format('outboxctl plugin retain %s@%s, or activate it',
                i.plugin_id, i.plugin_version);
    ELSIF NOT EXISTS (SELECT FROM json_array_elements(g.document -> 'contributions') c(v)
                       WHERE c.v ->> 'subscriber' = t.subscriber_id
                         AND c.v ->> 'artifact_digest' = i.artifact_digest) THEN
        RAISE EXCEPTION 'installation %@% has digest %, the graph froze another', i.plugin_id,
            i.plugin_version, i.artifact_digest USING ERRCODE = 'OB015';
    ELSIF NOT EXISTS (SELECT FROM outbox.permission_grant p
                       WHERE p.target_id = t.target_id AND p.permission = 'event.subscribe'
                         AND p.contract_key = x.contract_key AND p.revoked_at IS NULL
                         AND p.workspace IN ('*', x.workspace)) THEN
        RAISE EXCEPTION 'no active grant of %@% covers % in workspace %', i.plugin_id,
            i.plugin_version, v_contract, x.workspace
            USING ERRCODE = 'OB016', HINT = format(
                'outboxctl grant add %s event.subscribe %s --workspace ''%s'' --version %s',
                t.subscriber_id, v_contract, x.workspace, i.plugin_version);
    END IF;
    PERFORM outbox._rewrite(e, 'pending', NULL);
    UPDATE outbox.exception y
       SET attempt_count = 0, crash_count = 0, oversize_since = NULL, authority_seq = v_seq
     WHERE y.target_id = e.target_id AND y.fact_id = e.fact_id;
    DELETE FROM outbox.absence a WHERE a.target_id = e.target_id; -- a new grace
    PERFORM outbox._audit('resume', resume.event_id || ' ' || resume.subscriber_id,
        json_build_object('pause_reason', e.pause_reason, 'attempt_count', e.attempt_count));
    PERFORM outbox._wake();
    RETURN 'pending';
END
$$;

-- outbox.retry_now(event, subscriber, generation): a pending delivery falls
-- due now.  OB031 unless it is pending.
CREATE OR REPLACE FUNCTION outbox.retry_now(event_id uuid, subscriber_id text,
    generation int DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    e outbox.exception;
BEGIN
    PERFORM outbox._need_read_committed();
    e := outbox._hold(retry_now.event_id, retry_now.subscriber_id, retry_now.generation);
    IF e.target_id IS NULL THEN
        PERFORM outbox._refuse_finished(retry_now.event_id, retry_now.subscriber_id);
    ELSIF e.status <> 'pending' THEN
        RAISE EXCEPTION 'the delivery of event % to % is %, not pending', retry_now.event_id,
            retry_now.subscriber_id, e.status USING ERRCODE = 'OB031',
            HINT = CASE e.status WHEN 'paused' THEN 'outboxctl delivery resume EVENT SUBSCRIBER'
                   ELSE 'its attempt is still running' END;
    END IF;
    IF e.due_at > clock_timestamp() THEN
        PERFORM outbox._rewrite(e, 'pending', NULL);
    END IF;
    PERFORM outbox._audit('retry_now', retry_now.event_id || ' ' || retry_now.subscriber_id);
    PERFORM outbox._wake();
    RETURN 'pending';
END
$$;

-- outbox.discard(event, subscriber, generation, reason): ends a pending or
-- paused delivery without delivering it, for good.  OB031 while it is claimed.
CREATE OR REPLACE FUNCTION outbox.discard(event_id uuid, subscriber_id text, generation int,
    reason text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    e outbox.exception;
BEGIN
    PERFORM outbox._need_read_committed();
    IF discard.reason IS NULL OR discard.reason !~ '[^[:space:]]' THEN
        RAISE EXCEPTION 'discard needs a reason' USING ERRCODE = '22023';
    END IF;
    e := outbox._hold(discard.event_id, discard.subscriber_id, discard.generation);
    IF e.target_id IS NULL THEN
        PERFORM outbox._refuse_finished(discard.event_id, discard.subscriber_id);
    ELSIF e.status = 'claimed' THEN
        RAISE EXCEPTION 'the delivery of event % to % is claimed until %', discard.event_id,
            discard.subscriber_id, outbox._rfc3339(e.claim_expires_at)
            USING ERRCODE = 'OB031', HINT = 'pause it first';
    END IF;
    DELETE FROM outbox.exception y WHERE y.target_id = e.target_id AND y.fact_id = e.fact_id;
    INSERT INTO outbox.discarded (target_id, fact_id, generation, attempt_count, crash_count,
        last_error, discarded_by, reason)
    VALUES (e.target_id, e.fact_id, e.generation, e.attempt_count, e.crash_count, e.last_error,
        session_user, outbox._clip(discard.reason));
    PERFORM outbox._audit('discard', discard.event_id || ' ' || discard.subscriber_id,
        json_build_object('was', e.status, 'reason', outbox._clip(discard.reason)));
    RETURN 'discarded';
END
$$;

-- outbox.release_claims(worker): gives back every claim of a worker that is
-- known to be gone, without waiting for the leases.  If it lives after all,
-- its later settles answer claim_lost.  Answers how many deliveries.
CREATE OR REPLACE FUNCTION outbox.release_claims(worker uuid) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    c outbox.claim;
    v_count bigint := 0;
    v_n bigint;
BEGIN
    PERFORM outbox._need_read_committed();
    PERFORM FROM outbox.lane l WHERE l.target_id IN (
            SELECT y.target_id FROM outbox.claim y WHERE y.worker = release_claims.worker
            UNION SELECT e.target_id FROM outbox.exception e WHERE e.claimed_by = release_claims.worker)
      ORDER BY l.target_id FOR NO KEY UPDATE;
    FOR c IN
        SELECT * FROM outbox.claim y WHERE y.worker = release_claims.worker
         ORDER BY y.claim_id FOR UPDATE
    LOOP
        WITH gone AS (
            DELETE FROM outbox.fresh f
             USING (SELECT c.target_id AS target_id, y.fact_id
                      FROM unnest(outbox._claim_ids(c)) y(fact_id) OFFSET 0) u
             WHERE f.target_id = ANY (ARRAY[u.target_id]) AND f.fact_id = u.fact_id
            RETURNING f.fact_id
        ), told AS (
            INSERT INTO outbox.attempt (fact_id, target_id, generation, attempt, outcome, verdict,
                claim_id, worker, ended_at, error)
            SELECT g.fact_id, c.target_id, 1, 1, 'interrupted', NULL, c.claim_id, c.worker,
                   clock_timestamp(), 'released by operator'
              FROM gone g
        )
        INSERT INTO outbox.exception (target_id, fact_id, status, attempt_count, authority_seq,
            available_at, due_at)
        SELECT c.target_id, g.fact_id, 'pending', 0, x.authority_seq, x.published_at, x.published_at
          FROM gone g JOIN outbox.fact x ON x.fact_id = ANY (ARRAY[g.fact_id]);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        v_count := v_count + v_n;
        DELETE FROM outbox.claim y WHERE y.claim_id = c.claim_id;
    END LOOP;
    PERFORM FROM outbox.exception e WHERE e.claimed_by = release_claims.worker
      ORDER BY e.target_id, e.fact_id FOR UPDATE;
    -- what expired before has been told and counted already
    INSERT INTO outbox.attempt (fact_id, target_id, generation, attempt, outcome, verdict,
        claim_id, worker, ended_at, error)
    SELECT e.fact_id, e.target_id, e.generation, e.attempt_count, 'interrupted', NULL,
           e.claim_id, e.claimed_by, clock_timestamp(), 'released by operator'
      FROM outbox.exception e
     WHERE e.claimed_by = release_claims.worker AND NOT e.expired;
    UPDATE outbox.exception e
       SET status = 'pending', attempt_count = e.attempt_count - (NOT e.expired)::int,
           expired = false, due_at = e.available_at, claim_id = NULL, claimed_by = NULL,
           claimed_at = NULL, claim_expires_at = NULL
     WHERE e.claimed_by = release_claims.worker;
    GET DIAGNOSTICS v_n = ROW_COUNT;
    PERFORM outbox._audit('release_claims', release_claims.worker::text,
        json_build_object('deliveries', v_count + v_n));
    PERFORM outbox._wake();
    RETURN v_count + v_n;
END
$$;

-- outbox.subscriber_pause(subscriber, reason): nothing of it is claimed from
-- the next claim on; facts are still owed to it.  'paused' | 'already'.
CREATE OR REPLACE FUNCTION outbox.subscriber_pause(subscriber_id text, reason text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_paused timestamptz;
BEGIN
    PERFORM outbox._need_read_committed();
    IF subscriber_pause.reason IS NULL OR subscriber_pause.reason !~ '[^[:space:]]' THEN
        RAISE EXCEPTION 'subscriber_pause needs a reason' USING ERRCODE = '22023';
    END IF;
    SELECT s.paused_at INTO v_paused FROM outbox.subscriber s
     WHERE s.subscriber_id = subscriber_pause.subscriber_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown subscriber %', subscriber_pause.subscriber_id
            USING ERRCODE = 'OB030', HINT = 'outboxctl subscriber list';
    ELSIF v_paused IS NOT NULL THEN
        RETURN 'already';
    END IF;
    UPDATE outbox.subscriber s
       SET paused_at = clock_timestamp(), pause_reason = outbox._clip(subscriber_pause.reason),
           paused_by = session_user
     WHERE s.subscriber_id = subscriber_pause.subscriber_id;
    PERFORM outbox._audit('subscriber_pause', subscriber_pause.subscriber_id,
        json_build_object('reason', outbox._clip(subscriber_pause.reason)));
    PERFORM pg_notify('outbox_wake', '');
    RETURN 'paused';
END
$$;

-- outbox.subscriber_resume(subscriber): 'resumed' | 'already'.
CREATE OR REPLACE FUNCTION outbox.subscriber_resume(subscriber_id text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_paused timestamptz;
BEGIN
    PERFORM outbox._need_read_committed();
    SELECT s.paused_at INTO v_paused FROM outbox.subscriber s
     WHERE s.subscriber_id = subscriber_resume.subscriber_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown subscriber %', subscriber_resume.subscriber_id
            USING ERRCODE = 'OB030', HINT = 'outboxctl subscriber list';
    ELSIF v_paused IS NULL THEN
        RETURN 'already';
    END IF;
    UPDATE outbox.subscriber s SET paused_at = NULL, pause_reason = NULL, paused_by = NULL
     WHERE s.subscriber_id = subscriber_resume.subscriber_id;
    PERFORM outbox._audit('subscriber_resume', subscriber_resume.subscriber_id);
    PERFORM pg_notify('outbox_wake', '');
    RETURN 'resumed';
END
$$;
