-- 20_lists.sql: lists that stay quick however much the tables hold.

-- outbox._list_keys(...): events that may be in the list, at most so many of
-- each kind of row of one lane, the latest first.  Each part walks the index
-- of its own table backwards and stops (OFFSET 0 keeps the planner from
-- walking all facts instead); the view then decides what they are.
CREATE OR REPLACE FUNCTION outbox._list_keys(p_target bigint, p_status text, p_contract bigint,
    p_workspace text, p_since timestamptz, p_limit int) RETURNS uuid[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
    v_lapsed boolean := EXISTS (SELECT FROM outbox.lapse l WHERE l.target_id = p_target);
    v_claimed bigint[];
BEGIN
    IF p_status IN ('pending', 'claimed') THEN
        SELECT array_agg(u.id) INTO v_claimed
          FROM outbox.claim c CROSS JOIN unnest(outbox._claim_ids(c)) u(id) WHERE c.target_id = p_target;
    END IF;
    RETURN ARRAY(
        (SELECT x.event_id FROM (SELECT y.fact_id FROM outbox.fresh y WHERE y.target_id = p_target
                  ORDER BY y.fact_id DESC OFFSET 0) f
           JOIN outbox.fact x ON x.fact_id = f.fact_id
          WHERE (p_status IS NULL OR p_status = 'paused' AND v_lapsed
                 OR p_status = 'pending' AND (v_claimed IS NULL OR f.fact_id <> ALL (v_claimed))
                 OR p_status = 'claimed' AND f.fact_id = ANY (v_claimed))
            AND (p_contract IS NULL OR x.contract_key = p_contract)
            AND (p_workspace IS NULL OR x.workspace = p_workspace)
            AND (p_since IS NULL OR x.published_at >= p_since)
          ORDER BY f.fact_id DESC LIMIT p_limit)
        UNION ALL
        (SELECT x.event_id FROM (SELECT y.fact_id FROM outbox.exception y WHERE y.target_id = p_target
                    AND (p_status IS NULL OR y.status = p_status OR p_status = 'paused' AND v_lapsed)
                    AND (p_status IS NULL OR p_status IN ('pending', 'claimed', 'paused'))
                  ORDER BY y.fact_id DESC OFFSET 0) e
           JOIN outbox.fact x ON x.fact_id = e.fact_id
          WHERE (p_contract IS NULL OR x.contract_key = p_contract)
            AND (p_workspace IS NULL OR x.workspace = p_workspace)
            AND (p_since IS NULL OR x.published_at >= p_since)
          ORDER BY e.fact_id DESC LIMIT p_limit)
        UNION ALL
        (SELECT x.event_id FROM (SELECT y.fact_id FROM outbox.receipt y WHERE y.target_id = p_target
                  ORDER BY y.fact_id DESC OFFSET 0) r
           JOIN outbox.fact x ON x.fact_id = r.fact_id
          WHERE (p_status IS NULL OR p_status = 'delivered')
            AND (p_contract IS NULL OR x.contract_key = p_contract)
            AND (p_workspace IS NULL OR x.workspace = p_workspace)
            AND (p_since IS NULL OR x.published_at >= p_since)
          ORDER BY r.fact_id DESC LIMIT p_limit)
        UNION ALL
        (SELECT x.event_id FROM outbox.discarded z JOIN outbox.fact x ON x.fact_id = z.fact_id
          WHERE z.target_id = p_target AND (p_status IS NULL OR p_status = 'discarded')
            AND (p_contract IS NULL OR x.contract_key = p_contract)
            AND (p_workspace IS NULL OR x.workspace = p_workspace)
            AND (p_since IS NULL OR x.published_at >= p_since)
          ORDER BY z.fact_id DESC LIMIT p_limit));
END
$$;

-- outbox.delivery_list(...): rows of outbox.deliveries, latest fact first.
-- Each NULL filter lets everything through; contract is ID@VERSION, since
-- compares with published_at.
CREATE OR REPLACE FUNCTION outbox.delivery_list(p_status text DEFAULT NULL,
    p_subscriber text DEFAULT NULL, p_contract text DEFAULT NULL, p_workspace text DEFAULT NULL,
    p_since timestamptz DEFAULT NULL, p_limit int DEFAULT 50) RETURNS SETOF outbox.deliveries
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
    v_contract bigint;
    v_target bigint;
    v_keys uuid[] := '{}';
BEGIN
    IF p_status NOT IN ('pending', 'claimed', 'paused', 'delivered', 'discarded') THEN
        RAISE EXCEPTION 'status "%" is not pending, claimed, paused, delivered or discarded', p_status
            USING ERRCODE = '22023';
    ELSIF p_limit IS NULL OR p_limit NOT BETWEEN 1 AND 100000 THEN
        RAISE EXCEPTION 'limit is not within 1 to 100000' USING ERRCODE = '22023';
    END IF;
    IF p_contract IS NOT NULL THEN
        SELECT k.contract_key INTO v_contract FROM outbox.contract k
         WHERE k.contract_id || '@' || k.contract_version = p_contract;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'unknown contract %', p_contract
                USING ERRCODE = 'OB030', HINT = 'outboxctl contract list';
        END IF;
    END IF;
    FOR v_target IN
        SELECT t.target_id FROM outbox.target t
         WHERE p_subscriber IS NULL OR t.subscriber_id = p_subscriber
    LOOP
        v_keys := v_keys || outbox._list_keys(v_target, p_status, v_contract, p_workspace,
            p_since, p_limit);
    END LOOP;
    RETURN QUERY
    SELECT d.* FROM (SELECT DISTINCT u.id FROM unnest(v_keys) u(id)) e
     CROSS JOIN LATERAL (SELECT * FROM outbox.deliveries y
                          WHERE y.event_id = e.id OFFSET 0) d -- one event's plan, each time
     WHERE (p_status IS NULL OR d.status = p_status)
       AND (p_subscriber IS NULL OR d.subscriber_id = p_subscriber)
     ORDER BY d.fact_id DESC, d.subscriber_id COLLATE "C", d.generation DESC LIMIT p_limit;
END
$$;
