-- 40_publish.sql: what business services call inside their own transaction.

-- outbox._check_headers(headers): 22023 unless it is an object of strings
-- with names [a-z0-9]{1,20}, at most 8 KiB, none an attribute of the event.
CREATE OR REPLACE FUNCTION outbox._check_headers(p_headers json) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_name text;
    v_value json;
    v_seen text[] := '{}';
BEGIN
    IF json_typeof(p_headers) <> 'object' THEN
        RAISE EXCEPTION 'headers must be a JSON object of strings, not %', json_typeof(p_headers)
            USING ERRCODE = '22023';
    ELSIF octet_length(p_headers::text) > 8192 THEN
        RAISE EXCEPTION 'headers are % bytes long, at most 8192 are allowed',
            octet_length(p_headers::text) USING ERRCODE = '22023';
    ELSIF outbox._body_unholdable(p_headers::text) IS NOT NULL THEN
        RAISE EXCEPTION 'headers: %', replace(outbox._body_unholdable(p_headers::text), 'body holds', 'hold')
            USING ERRCODE = '22023';
    END IF;
    FOR v_name, v_value IN SELECT h.key, h.value FROM json_each(p_headers) h LOOP
        IF v_name !~ '^[a-z0-9]{1,20}$' THEN
            RAISE EXCEPTION 'header name "%" is not 1 to 20 of [a-z0-9]', v_name
                USING ERRCODE = '22023';
        ELSIF v_name IN ('id', 'source', 'specversion', 'type', 'datacontenttype', 'dataschema',
                         'subject', 'time', 'data', 'contractversion', 'workspace') THEN
            RAISE EXCEPTION 'header name "%" is an attribute of the event itself', v_name
                USING ERRCODE = '22023';
        ELSIF json_typeof(v_value) <> 'string' THEN
            RAISE EXCEPTION 'header "%" must be a string', v_name USING ERRCODE = '22023';
        ELSIF (p_headers ->> v_name) ~ '[\u0001-\u001f\u007f]' THEN
            RAISE EXCEPTION 'header "%" holds a control character', v_name USING ERRCODE = '22023';
        ELSIF v_name = ANY (v_seen) THEN
            RAISE EXCEPTION 'header "%" is given twice', v_name USING ERRCODE = '22023';
        END IF;
        v_seen := v_seen || v_name;
    END LOOP;
END
$$;

-- outbox._check_publish(...): the arguments of one event that need no table.
CREATE OR REPLACE FUNCTION outbox._check_publish(p_body json, p_subject text,
    p_occurred_at timestamptz, p_headers json, p_available_at timestamptz) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    IF p_body IS NULL THEN
        RAISE EXCEPTION 'body is null' USING ERRCODE = '22004',
            HINT = 'a body of JSON null is written ''null''::json';
    END IF;
    IF p_subject IS NOT NULL THEN
        PERFORM outbox._check_label('subject', p_subject);
    END IF;
    IF p_headers IS NOT NULL THEN
        PERFORM outbox._check_headers(p_headers);
    END IF;
    IF p_occurred_at IS NOT NULL AND NOT (p_occurred_at >= '0001-01-01 00:00:00+00'
            AND p_occurred_at < '10000-01-01 00:00:00+00') THEN
        RAISE EXCEPTION 'occurred_at % is not within the years 1 to 9999', p_occurred_at
            USING ERRCODE = '22023';
    ELSIF p_available_at IS NOT NULL AND NOT isfinite(p_available_at) THEN
        RAISE EXCEPTION 'available_at is not finite' USING ERRCODE = '22023';
    END IF;
END
$$;

-- outbox._is_plain(value): true only for what _check_label lets pass for sure:
-- without blanks and beyond ASCII nothing.  A part of the caller's expression.
CREATE OR REPLACE FUNCTION outbox._is_plain(p_value text) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$
    SELECT octet_length(p_value) <= 256 AND p_value ~ '^[!-~]+$'
$$;

-- outbox._same_fact(fact, ...): OB001 unless the stored fact equals what is
-- published again.  headers and available_at are not compared.
CREATE OR REPLACE FUNCTION outbox._same_fact(p_event uuid, p_contract_id text, p_contract_version text,
    p_workspace text, p_subject text, p_body json, p_occurred_at timestamptz) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_differs text;
BEGIN
    SELECT CASE
           WHEN k.contract_id IS DISTINCT FROM p_contract_id
             OR k.contract_version IS DISTINCT FROM p_contract_version THEN 'contract'
           WHEN x.workspace IS DISTINCT FROM p_workspace THEN 'workspace'
           WHEN x.subject IS DISTINCT FROM p_subject THEN 'subject'
           WHEN x.body::text IS DISTINCT FROM p_body::text THEN 'body'
           WHEN x.occurred_at <> p_occurred_at THEN 'occurred_at'
           END
      INTO v_differs
      FROM outbox.fact x LEFT JOIN outbox.contract k ON k.contract_key = x.contract_key
     WHERE x.event_id = p_event;
    IF v_differs IS NOT NULL THEN
        RAISE EXCEPTION 'event % exists with another %', p_event, v_differs
            USING ERRCODE = 'OB001',
                  HINT = 'an event id names one fact: publish another fact under another id';
    END IF;
END
$$;

-- outbox._contract_for_publish(id, version): the contract's row, or OB002,
-- OB003, OB005.
CREATE OR REPLACE FUNCTION outbox._contract_for_publish(p_id text, p_version text)
RETURNS outbox.contract
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    k outbox.contract;
BEGIN
    SELECT * INTO k FROM outbox.contract x
     WHERE x.contract_id = p_id AND x.contract_version = p_version;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown contract %@%', p_id, p_version
            USING ERRCODE = 'OB002', HINT = 'outboxctl contract add ID@VERSION';
    ELSIF k.state = 'retired' THEN
        RAISE EXCEPTION 'contract %@% is retired', p_id, p_version
            USING ERRCODE = 'OB003', HINT = 'publish under a later version';
    ELSIF k.owner_plugin IS NOT NULL THEN
        RAISE EXCEPTION 'contract %@% belongs to plugin %', p_id, p_version, k.owner_plugin
            USING ERRCODE = 'OB005', HINT = 'only results of that plugin publish it';
    END IF;
    RETURN k;
END
$$;

-- outbox._publish(...): a set of events of one contract and workspace,
-- whatever they are like.  Answers the event ids in order, NULL where nobody
-- subscribes.  Nothing in here waits but for an uncommitted publisher of the
-- same event id.  Planning its statements at each call would cost as much as
-- their work, so it asks for one plan; made while the tables are empty, it
-- must not be a scan of them.  Arrays are unnested: to take the nth element of
-- one that is a parameter is to walk there.
CREATE OR REPLACE FUNCTION outbox._publish(p_contract_id text, p_contract_version text,
    p_bodies json[], p_workspace text, p_subjects text[], p_event_ids uuid[],
    p_occurred_at timestamptz[], p_headers json[], p_available_at timestamptz[])
RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    k outbox.contract;
    v_count int := coalesce(cardinality(p_bodies), 0);
    v_at int;           -- the event in question
    v_known uuid[];     -- of the ids named, those that stand already
    v_ids uuid[] := '{}';
    v_graph bigint;
    v_seq bigint;
    v_targets bigint[];
    v_error text;
    v_made bigint;
    v_due boolean := false;
BEGIN
    PERFORM outbox._check_label('workspace', p_workspace);
    IF p_workspace = '*' THEN
        RAISE EXCEPTION 'workspace is *, which only a grant may say: name the one it happened in'
            USING ERRCODE = '22023';
    END IF;
    -- only where there is something to check: a call for each costs as much
    -- as its rows
    FOR v_at IN
        SELECT u.n FROM unnest(p_bodies, p_subjects, p_occurred_at, p_headers, p_available_at)
               WITH ORDINALITY u(body, subject, occurred_at, headers, available_at, n)
         WHERE u.body IS NULL OR u.subject IS NOT NULL OR u.occurred_at IS NOT NULL
            OR u.headers IS NOT NULL OR u.available_at IS NOT NULL
    LOOP
        PERFORM outbox._check_publish(p_bodies[v_at], p_subjects[v_at], p_occurred_at[v_at],
            p_headers[v_at], p_available_at[v_at]);
    END LOOP;

    -- an id that stands is looked up before contract, schema and graph are
    IF p_event_ids IS NOT NULL THEN
        SELECT coalesce(array_agg(x.event_id), '{}') INTO v_known
          FROM outbox.fact x WHERE x.event_id = ANY (p_event_ids);
        IF cardinality(v_known) > 0 THEN
            FOR i IN 1..v_count LOOP
                IF p_event_ids[i] = ANY (v_known) THEN
                    PERFORM outbox._same_fact(p_event_ids[i], p_contract_id, p_contract_version,
                        p_workspace, p_subjects[i], p_bodies[i], p_occurred_at[i]);
                END IF;
            END LOOP;
            IF NOT EXISTS (SELECT FROM unnest(p_event_ids) u(event_id)
                            WHERE u.event_id IS NULL OR u.event_id <> ALL (v_known)) THEN
                RETURN p_event_ids;
            END IF;
        END IF;
    END IF;

    k := outbox._contract_for_publish(p_contract_id, p_contract_version);
    -- without an escape there is nothing that cannot be held
    FOR v_at IN
        SELECT u.n FROM unnest(p_bodies, p_event_ids) WITH ORDINALITY u(body, event_id, n)
         WHERE (k.body_schema IS NOT NULL OR strpos(u.body::text, '\u') > 0)
           AND coalesce(u.event_id <> ALL (v_known), true)
    LOOP
        v_error := outbox._body_unholdable(p_bodies[v_at]::text);
        IF v_error IS NULL AND k.body_schema IS NOT NULL THEN
            v_error := outbox._body_error(k.body_schema, p_bodies[v_at]);
        END IF;
        IF v_error IS NOT NULL THEN
            RAISE EXCEPTION 'body refused by contract %@%: %', p_contract_id, p_contract_version, v_error
                USING ERRCODE = 'OB004';
        END IF;
    END LOOP;

    -- graph and authority seq come from one row, so they belong together
    SELECT w.graph_id, w.authority_seq,
           ARRAY(SELECT g.target_id FROM outbox.graph_target g
                  WHERE g.graph_id = w.graph_id AND g.contract_key = k.contract_key
                  ORDER BY g.target_id)
      INTO v_graph, v_seq, v_targets
      FROM outbox.workspace_graph w
     WHERE w.workspace IN (p_workspace, '*')
     ORDER BY (w.workspace = '*') LIMIT 1;
    IF coalesce(cardinality(v_targets), 0) = 0 THEN
        FOR i IN 1..v_count LOOP
            v_ids[i] := CASE WHEN p_event_ids[i] = ANY (v_known) THEN p_event_ids[i] END;
        END LOOP;
        RETURN v_ids;
    END IF;

    -- before any fact_id is drawn: a lane's "low" relies on it
    PERFORM pg_current_xact_id();
    v_ids := ARRAY(SELECT coalesce(u.event_id, outbox._uuid7())
                     FROM unnest(p_bodies, p_event_ids) u(body, event_id));
    -- the usual set: no id that may stand already, nothing for later
    IF p_event_ids IS NULL AND p_available_at IS NULL THEN
        WITH made AS (
            INSERT INTO outbox.fact (event_id, contract_key, graph_id, authority_seq, frame_bytes,
                published_at, occurred_at, workspace, subject, headers, body)
            SELECT u.event_id, k.contract_key, v_graph, v_seq,
                   2304 + octet_length(u.body::text)
                        + 2 * coalesce(octet_length(u.headers::text), 0),
                   t.now, coalesce(u.occurred_at, t.now),
                   p_workspace, u.subject, u.headers, u.body
              FROM unnest(v_ids, p_bodies, p_subjects, p_occurred_at, p_headers)
                   u(event_id, body, subject, occurred_at, headers),
                   clock_timestamp() t(now)
            RETURNING fact_id
        )
        INSERT INTO outbox.fresh (target_id, fact_id)
        SELECT t.id, m.fact_id FROM made m CROSS JOIN unnest(v_targets) t(id);
        v_made := v_count;
        v_due := v_count > 0;
    ELSE
        WITH made AS (
            INSERT INTO outbox.fact (event_id, contract_key, graph_id, authority_seq, frame_bytes,
                published_at, occurred_at, available_at, workspace, subject, headers, body)
            SELECT u.event_id, k.contract_key, v_graph, v_seq,
                   2304 + octet_length(u.body::text)
                        + 2 * coalesce(octet_length(u.headers::text), 0),
                   t.now, coalesce(u.occurred_at, t.now),
                   CASE WHEN u.available_at > t.now THEN u.available_at END,
                   p_workspace, u.subject, u.headers, u.body
              FROM unnest(v_ids, p_bodies, p_subjects, p_occurred_at, p_headers, p_available_at)
                   u(event_id, body, subject, occurred_at, headers, available_at),
                   clock_timestamp() t(now)
             WHERE v_known IS NULL OR u.event_id <> ALL (v_known)
            ON CONFLICT (event_id) DO NOTHING
            RETURNING fact_id, available_at
        ), fresh AS (
            INSERT INTO outbox.fresh (target_id, fact_id)
            SELECT t.id, m.fact_id FROM made m CROSS JOIN unnest(v_targets) t(id)
             WHERE m.available_at IS NULL
        ), delayed AS (
            INSERT INTO outbox.exception (target_id, fact_id, status, attempt_count,
                authority_seq, available_at, due_at)
            SELECT t.id, m.fact_id, 'pending', 0, v_seq, m.available_at, m.available_at
              FROM made m CROSS JOIN unnest(v_targets) t(id)
             WHERE m.available_at IS NOT NULL
        )
        SELECT count(*), coalesce(bool_or(m.available_at IS NULL), false) INTO v_made, v_due FROM made m;
    END IF;

    -- fewer made than asked: another publisher was first, or an id is named
    -- twice in this call; either stands now and must be the same fact
    IF v_made < v_count - coalesce(cardinality(v_known), 0) THEN
        FOR i IN 1..v_count LOOP
            IF p_event_ids[i] IS NOT NULL THEN
                PERFORM outbox._same_fact(p_event_ids[i], p_contract_id, p_contract_version,
                    p_workspace, p_subjects[i], p_bodies[i], p_occurred_at[i]);
            END IF;
        END LOOP;
    END IF;

    IF v_due AND outbox._somebody_sleeps() THEN
        PERFORM outbox._wake_for(v_targets);
    END IF;
    RETURN v_ids;
END
$$;

-- outbox.publish(...): writes one fact and one delivery for each authorised
-- subscriber of its workspace, in the caller's transaction: a rollback leaves
-- neither.  Answers the event id; NULL when nobody subscribes, and then
-- nothing at all is written.
--   contract_id, contract_version  a known, active contract (OB002, OB003)
--   body          its exact text is kept; refused by OB004
--   workspace     whose graph is frozen; 'default' unless given
--   subject       optional, what the fact is about
--   event_id      made here unless given; given again with the same contract,
--                 workspace, subject, body and occurred_at: no-op; else OB001
--   occurred_at   now unless given
--   headers       object of strings, become CloudEvents attributes
--   available_at  not delivered before; now unless given
CREATE OR REPLACE FUNCTION outbox.publish(contract_id text, contract_version text, body json,
    workspace text DEFAULT 'default', subject text DEFAULT NULL, event_id uuid DEFAULT NULL,
    occurred_at timestamptz DEFAULT NULL, headers json DEFAULT NULL,
    available_at timestamptz DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_contract bigint;
    v_graph bigint;
    v_seq bigint;
    v_targets bigint[];
    v_xid xid8;
    v_bytes bigint;
    v_fact bigint;
    v_now timestamptz := clock_timestamp();
    v_id uuid := coalesce(publish.event_id, outbox._uuid7());
BEGIN
    -- The usual event, alone, takes two statements.  One that is not plainly in
    -- order, has no route or stands already is for _publish to judge.
    IF (publish.workspace = 'default' OR publish.workspace <> '*' AND outbox._is_plain(publish.workspace))
       AND (publish.subject IS NULL OR outbox._is_plain(publish.subject))
       AND (publish.occurred_at IS NULL
            OR publish.occurred_at >= '0001-01-01 00:00:00+00' AND publish.occurred_at <= v_now)
       AND publish.headers IS NULL AND publish.available_at IS NULL
       AND strpos(publish.body::text, '\u') = 0 THEN
        SELECT r.contract_key, r.graph_id, r.authority_seq, r.target_ids
          INTO v_contract, v_graph, v_seq, v_targets
          FROM outbox.route r
         WHERE r.contract_id = publish.contract_id AND r.contract_version = publish.contract_version
           AND r.workspace = publish.workspace AND NOT r.has_schema;
        -- should the workspace get grants of its own in between: who is in '*'
        -- has authority in all of them
        IF NOT FOUND THEN
            SELECT r.contract_key, r.graph_id, r.authority_seq, r.target_ids
              INTO v_contract, v_graph, v_seq, v_targets
              FROM outbox.route r
             WHERE r.contract_id = publish.contract_id AND r.contract_version = publish.contract_version
               AND r.workspace = '*' AND NOT r.has_schema;
        END IF;
    END IF;
    IF v_contract IS NOT NULL THEN
        v_xid := pg_current_xact_id(); -- before a fact_id is drawn, see _publish
        v_bytes := 2304 + octet_length(publish.body::text);
        -- ON CONFLICT where there can be one: it costs a tenth of the call
        IF publish.event_id IS NULL THEN
            INSERT INTO outbox.fact (event_id, contract_key, graph_id, authority_seq, frame_bytes,
                published_at, occurred_at, workspace, subject, body)
            VALUES (v_id, v_contract, v_graph, v_seq, v_bytes, v_now,
                coalesce(publish.occurred_at, v_now), publish.workspace, publish.subject, publish.body)
            RETURNING fact_id INTO v_fact;
        ELSE
            INSERT INTO outbox.fact (event_id, contract_key, graph_id, authority_seq, frame_bytes,
                published_at, occurred_at, workspace, subject, body)
            VALUES (v_id, v_contract, v_graph, v_seq, v_bytes, v_now,
                coalesce(publish.occurred_at, v_now), publish.workspace, publish.subject, publish.body)
            ON CONFLICT (event_id) DO NOTHING
            RETURNING fact_id INTO v_fact;
        END IF;
        IF v_fact IS NOT NULL THEN
            INSERT INTO outbox.fresh (target_id, fact_id) SELECT unnest(v_targets), v_fact;
            IF outbox._somebody_sleeps() THEN
                PERFORM outbox._wake_for(v_targets);
            END IF;
            RETURN v_id;
        END IF;
    END IF;
    RETURN (outbox._publish(publish.contract_id, publish.contract_version,
        ARRAY[publish.body], publish.workspace,
        CASE WHEN publish.subject IS NOT NULL THEN ARRAY[publish.subject] END,
        CASE WHEN publish.event_id IS NOT NULL THEN ARRAY[publish.event_id] END,
        CASE WHEN publish.occurred_at IS NOT NULL THEN ARRAY[publish.occurred_at] END,
        CASE WHEN publish.headers IS NOT NULL THEN ARRAY[publish.headers] END,
        CASE WHEN publish.available_at IS NOT NULL THEN ARRAY[publish.available_at] END))[1];
END
$$;

-- outbox.publish_many(...): the same for many events of one contract and
-- workspace.  Each optional array is NULL or as long as bodies (22023), its
-- elements may be NULL.  Answers in the same order.
CREATE OR REPLACE FUNCTION outbox.publish_many(contract_id text, contract_version text, bodies json[],
    workspace text DEFAULT 'default', subjects text[] DEFAULT NULL, event_ids uuid[] DEFAULT NULL,
    occurred_at timestamptz[] DEFAULT NULL, headers json[] DEFAULT NULL,
    available_at timestamptz[] DEFAULT NULL) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_name text;
BEGIN
    IF coalesce(array_ndims(bodies), 1) <> 1 OR coalesce(array_lower(bodies, 1), 1) <> 1 THEN
        RAISE EXCEPTION 'bodies must be a one-dimensional array that starts at 1'
            USING ERRCODE = '22023';
    END IF;
    SELECT a.name INTO v_name FROM (VALUES
        ('subjects', cardinality(subjects), array_lower(subjects, 1), array_ndims(subjects)),
        ('event_ids', cardinality(event_ids), array_lower(event_ids, 1), array_ndims(event_ids)),
        ('occurred_at', cardinality(publish_many.occurred_at), array_lower(publish_many.occurred_at, 1), array_ndims(publish_many.occurred_at)),
        ('headers', cardinality(publish_many.headers), array_lower(publish_many.headers, 1), array_ndims(publish_many.headers)),
        ('available_at', cardinality(publish_many.available_at), array_lower(publish_many.available_at, 1), array_ndims(publish_many.available_at))
        ) a(name, n, low, dims)
     WHERE a.n <> coalesce(cardinality(bodies), 0) OR a.low <> 1 OR a.dims <> 1 LIMIT 1;
    IF v_name IS NOT NULL THEN
        RAISE EXCEPTION '% must have one element for each of the % bodies', v_name,
            coalesce(cardinality(bodies), 0) USING ERRCODE = '22023';
    END IF;
    RETURN outbox._publish(publish_many.contract_id, publish_many.contract_version,
        publish_many.bodies, publish_many.workspace, publish_many.subjects, publish_many.event_ids,
        publish_many.occurred_at, publish_many.headers, publish_many.available_at);
END
$$;

-- outbox.event_body(event): the body's exact text, for operators only.
CREATE OR REPLACE FUNCTION outbox.event_body(event_id uuid) RETURNS json
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
    SELECT x.body FROM outbox.fact x WHERE x.event_id = event_body.event_id
$$;
