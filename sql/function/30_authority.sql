-- 30_authority.sql: contracts, installations, grants, and the graphs that
-- are compiled from them.
--
-- Every change here locks the one authority row, takes the next authority
-- seq, compiles the graphs anew and is one transaction.  publish takes no
-- lock that these wait for, nor the reverse: it freezes the seq it saw, and a
-- later lapse with a higher seq takes the delivery's authority away.

-- ---------------------------------------------------------------- contracts

-- outbox._contract_put(id, version, schema, owner): 'added', or 'already'
-- if the same contract stands.  22023 on bad syntax, OB031 if it differs.
CREATE OR REPLACE FUNCTION outbox._contract_put(p_id text, p_version text, p_schema json, p_owner text)
RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    k outbox.contract;
BEGIN
    IF p_id IS NULL OR octet_length(p_id) > 256
       OR p_id !~ '^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$' THEN
        RAISE EXCEPTION 'contract id "%" is not made of parts [a-z][a-z0-9_]* joined by dots', p_id
            USING ERRCODE = '22023';
    ELSIF p_version IS NULL OR p_version !~ '^[A-Za-z0-9._-]{1,64}$' THEN
        RAISE EXCEPTION 'contract version "%" is not 1 to 64 of [A-Za-z0-9._-]', p_version
            USING ERRCODE = '22023';
    ELSIF p_owner IS NOT NULL AND NOT starts_with(p_id, p_owner || '.') THEN
        RAISE EXCEPTION 'contract % is not in the namespace of plugin %', p_id, p_owner
            USING ERRCODE = '22023', HINT = format('name it %s.<name>', p_owner);
    END IF;
    IF p_schema IS NOT NULL THEN
        PERFORM outbox._schema_check(p_schema::jsonb);
    END IF;
    SELECT * INTO k FROM outbox.contract x
     WHERE x.contract_id = p_id AND x.contract_version = p_version;
    IF NOT FOUND THEN
        INSERT INTO outbox.contract (contract_id, contract_version, owner_plugin, body_schema)
        VALUES (p_id, p_version, p_owner, p_schema);
        PERFORM outbox._audit('contract_add', p_id || '@' || p_version);
        RETURN 'added';
    ELSIF k.owner_plugin IS DISTINCT FROM p_owner
       OR k.body_schema::jsonb IS DISTINCT FROM p_schema::jsonb THEN
        RAISE EXCEPTION 'contract %@% exists and differs', p_id, p_version
            USING ERRCODE = 'OB031',
                  HINT = 'a contract version never changes: add a new version';
    END IF;
    RETURN 'already';
END
$$;

-- outbox.contract_add(id, version, body_schema): makes a contract known.
-- Without a schema any JSON is accepted.
CREATE OR REPLACE FUNCTION outbox.contract_add(contract_id text, contract_version text,
    body_schema json DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    PERFORM outbox._need_read_committed();
    PERFORM outbox._authority_lock();
    RETURN outbox._contract_put(contract_add.contract_id, contract_add.contract_version,
        contract_add.body_schema, NULL);
END
$$;

-- outbox.contract_retire(id, version): publish refuses it from now on
-- (OB003); what is owed under it is still delivered.
CREATE OR REPLACE FUNCTION outbox.contract_retire(contract_id text, contract_version text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_state text;
BEGIN
    PERFORM outbox._need_read_committed();
    PERFORM outbox._authority_lock();
    SELECT k.state INTO v_state FROM outbox.contract k
     WHERE k.contract_id = contract_retire.contract_id
       AND k.contract_version = contract_retire.contract_version;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown contract %@%', contract_retire.contract_id,
            contract_retire.contract_version USING ERRCODE = 'OB030',
            HINT = 'outboxctl contract list';
    ELSIF v_state = 'retired' THEN
        RETURN 'already';
    END IF;
    UPDATE outbox.contract k SET state = 'retired', retired_at = clock_timestamp()
     WHERE k.contract_id = contract_retire.contract_id
       AND k.contract_version = contract_retire.contract_version;
    PERFORM outbox._routes();
    PERFORM outbox._audit('contract_retire', contract_retire.contract_id || '@'
        || contract_retire.contract_version);
    RETURN 'retired';
END
$$;

-- ------------------------------------------------------- the authority itself

-- outbox._authority_lock(): changes of authority happen one after the other.
CREATE OR REPLACE FUNCTION outbox._authority_lock() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    PERFORM FROM outbox.authority a FOR UPDATE;
END
$$;

-- outbox._contributions(workspace): what takes part in the graph of that
-- workspace ('*': of all that have no grants of their own): active
-- installations' handlers, for the contracts they subscribe to and have an
-- active grant for.
CREATE OR REPLACE FUNCTION outbox._contributions(p_workspace text)
RETURNS TABLE (target_id bigint, contract_key bigint, subscriber_id text, contract text,
               handler text, handler_version text, plugin_version text, artifact_digest text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
    SELECT t.target_id, k.contract_key, t.subscriber_id,
           k.contract_id || '@' || k.contract_version,
           t.handler, t.handler_version, i.plugin_version, i.artifact_digest
      FROM outbox.installation i
      JOIN outbox.target t ON t.installation_id = i.installation_id
      JOIN outbox.subscription s ON s.target_id = t.target_id
      JOIN outbox.contract k ON k.contract_id = s.contract_id
                            AND k.contract_version = s.contract_version
     WHERE i.state = 'active'
       AND EXISTS (SELECT FROM outbox.permission_grant g
                    WHERE g.target_id = t.target_id AND g.permission = 'event.subscribe'
                      AND g.contract_key = k.contract_key AND g.revoked_at IS NULL
                      AND g.workspace IN ('*', p_workspace))
$$;

-- outbox._compile(workspace, seq): compiles one graph and puts it in force at
-- that authority seq.  Contributions are sorted by subscriber id and contract,
-- so equal authority has an equal fingerprint.  OB034 if it does not compile.
CREATE OR REPLACE FUNCTION outbox._compile(p_workspace text, p_seq bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_document json;
    v_fingerprint text;
    v_graph bigint;
    v_twice text;
BEGIN
    SELECT c.subscriber_id INTO v_twice FROM outbox._contributions(p_workspace) c
     GROUP BY c.subscriber_id HAVING count(DISTINCT c.target_id) > 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'graph of workspace %: subscriber % is offered twice', p_workspace, v_twice
            USING ERRCODE = 'OB034', HINT = 'deactivate one of the installations';
    END IF;
    SELECT json_build_object('contributions', coalesce(json_agg(json_build_object(
               'subscriber', c.subscriber_id, 'contract', c.contract,
               'handler', c.handler, 'handler_version', c.handler_version,
               'plugin_version', c.plugin_version, 'artifact_digest', c.artifact_digest)
               ORDER BY c.subscriber_id COLLATE "C", c.contract COLLATE "C"), '[]'))
      INTO v_document FROM outbox._contributions(p_workspace) c;
    v_fingerprint := 'sha256:' || encode(sha256(convert_to(v_document::text, 'UTF8')), 'hex');
    SELECT g.graph_id INTO v_graph FROM outbox.graph g WHERE g.fingerprint = v_fingerprint;
    IF NOT FOUND THEN
        INSERT INTO outbox.graph (fingerprint, document) VALUES (v_fingerprint, v_document)
        RETURNING graph_id INTO v_graph;
        INSERT INTO outbox.graph_target (graph_id, contract_key, target_id)
        SELECT v_graph, c.contract_key, c.target_id FROM outbox._contributions(p_workspace) c;
    END IF;
    UPDATE outbox.workspace_graph w SET graph_id = v_graph, authority_seq = p_seq
     WHERE w.workspace = p_workspace;
    IF NOT FOUND THEN
        INSERT INTO outbox.workspace_graph VALUES (p_workspace, v_graph, p_seq);
    END IF;
END
$$;

-- outbox._routes(): what publish reads, from the graphs in force.  A schema
-- is told, not copied: publish goes another way with one.
CREATE OR REPLACE FUNCTION outbox._routes() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    DELETE FROM outbox.route;
    INSERT INTO outbox.route (contract_id, contract_version, workspace, contract_key, graph_id,
        authority_seq, has_schema, target_ids)
    SELECT k.contract_id, k.contract_version, w.workspace, k.contract_key, w.graph_id,
           w.authority_seq, k.body_schema IS NOT NULL, array_agg(g.target_id ORDER BY g.target_id)
      FROM outbox.workspace_graph w
      JOIN outbox.graph_target g ON g.graph_id = w.graph_id
      JOIN outbox.contract k ON k.contract_key = g.contract_key
     WHERE k.state = 'active' AND k.owner_plugin IS NULL
     GROUP BY k.contract_key, w.workspace;
END
$$;

-- outbox._authority_changed(seq): compiles every graph anew and wakes the
-- dispatchers, whose list of targets may be another now.
CREATE OR REPLACE FUNCTION outbox._authority_changed(p_seq bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_own text[];
    v_workspace text;
BEGIN
    SELECT coalesce(array_agg(DISTINCT g.workspace), '{}') INTO v_own
      FROM outbox.permission_grant g
      JOIN outbox.target t ON t.target_id = g.target_id
      JOIN outbox.installation i ON i.installation_id = t.installation_id
     WHERE g.revoked_at IS NULL AND i.state = 'active' AND g.workspace <> '*';
    DELETE FROM outbox.workspace_graph w
     WHERE w.workspace <> '*' AND w.workspace <> ALL (v_own);
    FOREACH v_workspace IN ARRAY v_own || '*'::text LOOP
        PERFORM outbox._compile(v_workspace, p_seq);
    END LOOP;
    PERFORM outbox._routes();
    PERFORM pg_notify('outbox_wake', '');
END
$$;

-- outbox._authority_next(): the next authority seq; the caller holds the lock.
CREATE OR REPLACE FUNCTION outbox._authority_next() RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
    UPDATE outbox.authority a SET seq = a.seq + 1 RETURNING a.seq
$$;

-- outbox._lapse_reason(target, seq, contract, workspace): why a delivery
-- frozen at that seq has no authority any more (the latest reason), or NULL.
-- The view outbox.deliveries says the same in a subquery of its own.
CREATE OR REPLACE FUNCTION outbox._lapse_reason(p_target bigint, p_seq bigint,
    p_contract bigint, p_workspace text) RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT l.reason FROM outbox.lapse l
     WHERE l.target_id = p_target AND l.authority_seq > p_seq
       AND (l.contract_key IS NULL OR l.contract_key = p_contract)
       AND (l.workspace = p_workspace
            OR l.workspace = '*' AND p_workspace <> ALL (l.except_workspaces))
     ORDER BY l.lapse_id DESC LIMIT 1
$$;

-- outbox._claim_ids(claim): the facts of a claim, in their order.
CREATE OR REPLACE FUNCTION outbox._claim_ids(p_claim outbox.claim) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    RETURN coalesce(p_claim.fact_ids,
        ARRAY(SELECT generate_series(p_claim.first_id, p_claim.first_id + p_claim.items - 1)));
END
$$;

-- outbox._claim_list(ids): what a claim of these facts, in their order, keeps as
-- fact_ids: NULL where they are consecutive.
CREATE OR REPLACE FUNCTION outbox._claim_list(p_ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    RETURN CASE WHEN p_ids[cardinality(p_ids)] - p_ids[1] >= cardinality(p_ids) THEN p_ids END;
END
$$;

-- outbox._claim_nth(claim, ord): its fact of that number; NULL if it has none.
CREATE OR REPLACE FUNCTION outbox._claim_nth(p_claim outbox.claim, p_ord int) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    RETURN CASE WHEN p_claim.fact_ids IS NOT NULL THEN p_claim.fact_ids[p_ord]
                WHEN p_ord BETWEEN 1 AND p_claim.items THEN p_claim.first_id + p_ord - 1 END;
END
$$;

-- outbox._claim_reduce(claim, n): n deliveries have left the claim; it goes
-- with its last.  The caller holds the claim row.
CREATE OR REPLACE FUNCTION outbox._claim_reduce(p_claim uuid, p_n bigint, p_split boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
BEGIN
    DELETE FROM outbox.claim c WHERE c.claim_id = p_claim AND c.open <= p_n;
    IF NOT FOUND THEN
        UPDATE outbox.claim c SET open = c.open - p_n, split = c.split OR p_split
         WHERE c.claim_id = p_claim;
    END IF;
END
$$;

-- outbox._lapse(target, contract, workspace, except, reason, seq): records
-- that a coverage has ended and ends the claims of what it covered, in flight
-- now: from the commit on their settles answer claim_lost.  Everything else
-- that is covered is shown paused by the views, passed over by claim and
-- rewritten in batches.  Locks: lane (no claim of it can start), claims,
-- deliveries.  Attempts stay as they are.
CREATE OR REPLACE FUNCTION outbox._lapse(p_target bigint, p_contract bigint, p_workspace text,
    p_except text[], p_reason text, p_seq bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_left record;
BEGIN
    PERFORM FROM outbox.lane l WHERE l.target_id = p_target FOR UPDATE;
    INSERT INTO outbox.lapse (authority_seq, target_id, contract_key, workspace,
                              except_workspaces, reason)
    VALUES (p_seq, p_target, p_contract, p_workspace, p_except, p_reason);
    PERFORM FROM outbox.claim c WHERE c.target_id = p_target ORDER BY c.claim_id FOR UPDATE;
    PERFORM FROM outbox.exception e
      WHERE e.target_id = p_target AND e.status = 'claimed' ORDER BY e.fact_id FOR UPDATE;
    FOR v_left IN
        WITH covered AS MATERIALIZED (
            SELECT c.claim_id, c.target_id, u.fact_id, x.published_at, x.authority_seq
              FROM outbox.claim c CROSS JOIN unnest(outbox._claim_ids(c)) u(fact_id)
              JOIN outbox.fact x ON x.fact_id = ANY (ARRAY[u.fact_id])
             WHERE c.target_id = p_target
               AND outbox._lapse_reason(p_target, x.authority_seq, x.contract_key,
                                        x.workspace) IS NOT NULL
        ), gone AS (
            DELETE FROM outbox.fresh f USING covered v
             WHERE f.target_id = ANY (ARRAY[v.target_id]) AND f.fact_id = v.fact_id
            RETURNING v.claim_id, f.fact_id, v.published_at, v.authority_seq
        ), paused AS (
            INSERT INTO outbox.exception (target_id, fact_id, status, attempt_count,
                authority_seq, available_at, pause_reason, paused_at)
            SELECT p_target, g.fact_id, 'paused', 1, g.authority_seq, g.published_at,
                   p_reason, clock_timestamp()
              FROM gone g
        )
        SELECT g.claim_id, count(*) AS n FROM gone g GROUP BY g.claim_id
    LOOP
        PERFORM outbox._claim_reduce(v_left.claim_id, v_left.n, true);
    END LOOP;
    UPDATE outbox.exception e
       SET status = 'paused', due_at = NULL, expired = false, claim_id = NULL,
           claimed_by = NULL, claimed_at = NULL, claim_expires_at = NULL,
           pause_reason = p_reason, paused_at = clock_timestamp()
      FROM outbox.fact x
     WHERE e.target_id = p_target AND e.status = 'claimed' AND x.fact_id = ANY (ARRAY[e.fact_id])
       AND outbox._lapse_reason(p_target, e.authority_seq, x.contract_key, x.workspace) IS NOT NULL;
END
$$;

-- ------------------------------------------------------------- installations

-- outbox._installation(plugin, version): the row, or OB030.
CREATE OR REPLACE FUNCTION outbox._installation(p_plugin text, p_version text)
RETURNS outbox.installation
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    i outbox.installation;
BEGIN
    SELECT * INTO i FROM outbox.installation x
     WHERE x.plugin_id = p_plugin AND x.plugin_version = p_version;
    IF NOT FOUND OR i.state = 'removed' THEN
        RAISE EXCEPTION 'plugin %@% is not installed', p_plugin, p_version
            USING ERRCODE = 'OB030', HINT = 'outboxctl plugin list';
    END IF;
    RETURN i;
END
$$;

-- outbox._install_parts(installation, manifest): its contracts, subscribers,
-- targets, lanes and wishes.
CREATE OR REPLACE FUNCTION outbox._install_parts(p_installation bigint, p_plugin text, p_manifest json)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_contract json;
    v_handler text;
    v_body json;
    v_subscriber text;
    v_target bigint;
BEGIN
    FOR v_contract IN
        SELECT c.v FROM json_array_elements(coalesce(p_manifest -> 'contracts', '[]')) c(v)
    LOOP
        PERFORM outbox._contract_put(v_contract ->> 'id', v_contract ->> 'version',
            CASE WHEN json_typeof(v_contract -> 'schema') <> 'null'
                 THEN v_contract -> 'schema' END, p_plugin);
    END LOOP;
    FOR v_handler, v_body IN
        SELECT h.key, h.value FROM json_each(p_manifest -> 'handlers') h ORDER BY h.key COLLATE "C"
    LOOP
        IF v_handler !~ '^[a-z][a-z0-9_]*$' THEN
            RAISE EXCEPTION 'manifest: handler name "%" is not [a-z][a-z0-9_]*', v_handler
                USING ERRCODE = '22023';
        ELSIF (v_body ->> 'deadline_ms')::numeric > 3600000 THEN
            RAISE EXCEPTION 'manifest: handlers.%.deadline is above 1 h, the longest lease', v_handler
                USING ERRCODE = '22023';
        ELSIF v_body ->> 'scope' = 'user' THEN
            RAISE EXCEPTION 'manifest: handlers.%.scope "user" is not in this version', v_handler
                USING ERRCODE = '22023';
        END IF;
        v_subscriber := p_plugin || '.' || v_handler;
        IF NOT EXISTS (SELECT FROM outbox.subscriber s WHERE s.subscriber_id = v_subscriber) THEN
            INSERT INTO outbox.subscriber (subscriber_id) VALUES (v_subscriber);
        END IF;
        INSERT INTO outbox.target (installation_id, subscriber_id, handler, handler_version)
        VALUES (p_installation, v_subscriber, v_handler, v_body ->> 'version')
        RETURNING target_id INTO v_target;
        INSERT INTO outbox.lane (target_id) VALUES (v_target);
        INSERT INTO outbox.subscription (target_id, contract_id, contract_version)
        SELECT DISTINCT v_target, s.v ->> 'contract_id', s.v ->> 'contract_version'
          FROM json_array_elements(v_body -> 'subscribes') s(v);
    END LOOP;
END
$$;

-- outbox.plugin_install(manifest, digest): registers one version of a
-- bundle, inactive.  'installed', or 'already' for the same digest.
-- OB032: that version is installed with another digest.
CREATE OR REPLACE FUNCTION outbox.plugin_install(manifest json, artifact_digest text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    i outbox.installation;
    v_plugin text := manifest ->> 'plugin';
    v_version text := manifest ->> 'version';
    v_protocol text := manifest ->> 'protocol';
BEGIN
    PERFORM outbox._need_read_committed();
    IF v_plugin IS NULL OR v_plugin !~ '^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$'
       OR octet_length(v_plugin) > 256 THEN
        RAISE EXCEPTION 'manifest: plugin "%" is not namespace.name', v_plugin USING ERRCODE = '22023';
    ELSIF v_version IS NULL OR v_version !~ '^[A-Za-z0-9._-]{1,64}$' THEN
        RAISE EXCEPTION 'manifest: version "%" is not 1 to 64 of [A-Za-z0-9._-]', v_version
            USING ERRCODE = '22023';
    ELSIF v_protocol IS NULL OR v_protocol NOT IN ('exec', 'worker') THEN
        RAISE EXCEPTION 'manifest: protocol "%" is not in this version, only exec and worker', v_protocol
            USING ERRCODE = '22023';
    ELSIF artifact_digest IS NULL OR artifact_digest !~ '^sha256:[0-9a-f]{64}$' THEN
        RAISE EXCEPTION 'artifact digest "%" is not sha256:<64 hex>', artifact_digest
            USING ERRCODE = '22023';
    ELSIF json_typeof(manifest -> 'handlers') IS DISTINCT FROM 'object'
       OR NOT EXISTS (SELECT FROM json_object_keys(manifest -> 'handlers')) THEN
        RAISE EXCEPTION 'manifest: no handlers' USING ERRCODE = '22023';
    END IF;
    PERFORM outbox._authority_lock();
    SELECT * INTO i FROM outbox.installation x
     WHERE x.plugin_id = v_plugin AND x.plugin_version = v_version;
    IF FOUND THEN
        IF i.artifact_digest <> plugin_install.artifact_digest THEN
            RAISE EXCEPTION 'plugin %@% is installed with digest %, this bundle has %',
                v_plugin, v_version, i.artifact_digest, plugin_install.artifact_digest
                USING ERRCODE = 'OB032', HINT = 'a version never changes: give the bundle a new version';
        ELSIF i.state <> 'removed' THEN
            RETURN 'already';
        END IF;
        UPDATE outbox.installation x SET state = 'inactive', installed_at = clock_timestamp()
         WHERE x.installation_id = i.installation_id;
    ELSE
        INSERT INTO outbox.installation (plugin_id, plugin_version, artifact_digest, protocol, manifest)
        VALUES (v_plugin, v_version, plugin_install.artifact_digest, v_protocol, plugin_install.manifest)
        RETURNING * INTO i;
        PERFORM outbox._install_parts(i.installation_id, v_plugin, plugin_install.manifest);
    END IF;
    PERFORM outbox._audit('plugin_install', v_plugin || '@' || v_version,
        json_build_object('artifact_digest', plugin_install.artifact_digest));
    RETURN 'installed';
END
$$;

-- outbox._wished(installation): what its manifest asks for.
-- contract_key is NULL where the contract is unknown.
CREATE OR REPLACE FUNCTION outbox._wished(p_installation bigint)
RETURNS TABLE (target_id bigint, subscriber_id text, handler text, contract text, contract_key bigint)
LANGUAGE sql STABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
    SELECT t.target_id, t.subscriber_id, t.handler,
           s.contract_id || '@' || s.contract_version, k.contract_key
      FROM outbox.target t
      JOIN outbox.subscription s ON s.target_id = t.target_id
      LEFT JOIN outbox.contract k ON k.contract_id = s.contract_id
                                 AND k.contract_version = s.contract_version
     WHERE t.installation_id = p_installation
     ORDER BY t.subscriber_id COLLATE "C", s.contract_id COLLATE "C", s.contract_version COLLATE "C"
$$;

-- outbox.plugin_activate(plugin, version, mode, workspace): puts it into the
-- graph; the version active until now is retained, with its own grants, for
-- what it still owes.  Grants and activation are one transaction.
--   strict          OB033, naming each grant that the manifest asks for and
--                   no workspace has
--   grant_all       first grants what is asked for, in the workspace named
--   same_grants     first copies the active version's grants, then strict
--   without_grants  asks for none
-- OB034: a contract it subscribes to is unknown.  Answers activated | already.
CREATE OR REPLACE FUNCTION outbox.plugin_activate(plugin_id text, plugin_version text,
    mode text DEFAULT 'strict', workspace text DEFAULT 'default') RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    i outbox.installation;
    v_old bigint;
    v_seq bigint;
    v_list text;
BEGIN
    PERFORM outbox._need_read_committed();
    IF mode IS NULL OR mode NOT IN ('strict', 'grant_all', 'same_grants', 'without_grants') THEN
        RAISE EXCEPTION 'mode "%" is not strict, grant_all, same_grants or without_grants', mode
            USING ERRCODE = '22023';
    END IF;
    PERFORM outbox._check_label('workspace', plugin_activate.workspace);
    PERFORM outbox._authority_lock();
    i := outbox._installation(plugin_activate.plugin_id, plugin_activate.plugin_version);
    SELECT string_agg(DISTINCT w.contract, ', ') INTO v_list
      FROM outbox._wished(i.installation_id) w WHERE w.contract_key IS NULL;
    IF v_list IS NOT NULL THEN
        RAISE EXCEPTION 'plugin %@% subscribes to unknown contract %', i.plugin_id,
            i.plugin_version, v_list
            USING ERRCODE = 'OB034', HINT = 'outboxctl contract add ID@VERSION';
    END IF;
    SELECT x.installation_id INTO v_old FROM outbox.installation x
     WHERE x.plugin_id = i.plugin_id AND x.state = 'active';

    IF mode = 'grant_all' THEN
        INSERT INTO outbox.permission_grant (target_id, permission, contract_key, workspace, granted_by)
        SELECT w.target_id, 'event.subscribe', w.contract_key, plugin_activate.workspace, session_user
          FROM outbox._wished(i.installation_id) w
         WHERE NOT EXISTS (SELECT FROM outbox.permission_grant g
                            WHERE g.target_id = w.target_id AND g.contract_key = w.contract_key
                              AND g.permission = 'event.subscribe' AND g.revoked_at IS NULL
                              AND g.workspace = plugin_activate.workspace);
    ELSIF mode = 'same_grants' AND v_old <> i.installation_id THEN
        INSERT INTO outbox.permission_grant (target_id, permission, contract_key, workspace, granted_by)
        SELECT n.target_id, g.permission, g.contract_key, g.workspace, session_user
          FROM outbox.permission_grant g
          JOIN outbox.target o ON o.target_id = g.target_id AND o.installation_id = v_old
          JOIN outbox.target n ON n.installation_id = i.installation_id AND n.handler = o.handler
         WHERE g.revoked_at IS NULL
           AND NOT EXISTS (SELECT FROM outbox.permission_grant h
                            WHERE h.target_id = n.target_id AND h.permission = g.permission
                              AND h.contract_key = g.contract_key AND h.workspace = g.workspace
                              AND h.revoked_at IS NULL);
    END IF;
    IF mode <> 'without_grants' THEN
        SELECT string_agg(format('%s event.subscribe %s', w.subscriber_id, w.contract), ', ')
          INTO v_list FROM outbox._wished(i.installation_id) w
         WHERE NOT EXISTS (SELECT FROM outbox.permission_grant g
                            WHERE g.target_id = w.target_id AND g.contract_key = w.contract_key
                              AND g.permission = 'event.subscribe' AND g.revoked_at IS NULL);
        IF v_list IS NOT NULL THEN
            RAISE EXCEPTION 'plugin %@% lacks grants: %', i.plugin_id, i.plugin_version, v_list
                USING ERRCODE = 'OB033',
                      HINT = 'outboxctl grant add SUBSCRIBER PERMISSION RESOURCE, or activate with '
                          '--grant-all, --same-grants or --without-grants';
        END IF;
    END IF;

    UPDATE outbox.installation x SET state = 'retained'
     WHERE x.installation_id = v_old AND v_old <> i.installation_id;
    UPDATE outbox.installation x SET state = 'active', activated_at = clock_timestamp()
     WHERE x.installation_id = i.installation_id AND x.state <> 'active';
    v_seq := outbox._authority_next();
    PERFORM outbox._authority_changed(v_seq);
    PERFORM outbox._audit('plugin_activate', i.plugin_id || '@' || i.plugin_version,
        json_build_object('mode', mode, 'workspace', plugin_activate.workspace));
    RETURN CASE WHEN i.state = 'active' THEN 'already' ELSE 'activated' END;
END
$$;

-- outbox._plugin_leave(installation, state): leaves service: every delivery
-- bound to it loses its authority with the commit.
CREATE OR REPLACE FUNCTION outbox._plugin_leave(p_installation bigint, p_state text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_seq bigint := outbox._authority_next();
    v_target bigint;
BEGIN
    UPDATE outbox.installation x SET state = p_state WHERE x.installation_id = p_installation;
    FOR v_target IN
        SELECT t.target_id FROM outbox.target t
         WHERE t.installation_id = p_installation ORDER BY t.target_id
    LOOP
        PERFORM outbox._lapse(v_target, NULL, '*', '{}', 'installation_inactive', v_seq);
    END LOOP;
    PERFORM outbox._authority_changed(v_seq);
END
$$;

-- outbox.plugin_deactivate(plugin, version): out of the graph, and what it
-- owes is paused installation_inactive.  Without a version: every active and
-- retained one.
CREATE OR REPLACE FUNCTION outbox.plugin_deactivate(plugin_id text, plugin_version text DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    i outbox.installation;
    v_answer text := 'already';
BEGIN
    PERFORM outbox._need_read_committed();
    PERFORM outbox._authority_lock();
    IF plugin_deactivate.plugin_version IS NOT NULL THEN
        PERFORM outbox._installation(plugin_deactivate.plugin_id, plugin_deactivate.plugin_version);
    ELSIF NOT EXISTS (SELECT FROM outbox.installation x
                       WHERE x.plugin_id = plugin_deactivate.plugin_id AND x.state <> 'removed') THEN
        RAISE EXCEPTION 'plugin % is not installed', plugin_deactivate.plugin_id
            USING ERRCODE = 'OB030', HINT = 'outboxctl plugin list';
    END IF;
    FOR i IN
        SELECT * FROM outbox.installation x
         WHERE x.plugin_id = plugin_deactivate.plugin_id AND x.state IN ('active', 'retained')
           AND (plugin_deactivate.plugin_version IS NULL
                OR x.plugin_version = plugin_deactivate.plugin_version)
         ORDER BY x.installation_id
    LOOP
        PERFORM outbox._plugin_leave(i.installation_id, 'inactive');
        PERFORM outbox._audit('plugin_deactivate', i.plugin_id || '@' || i.plugin_version);
        v_answer := 'deactivated';
    END LOOP;
    RETURN v_answer;
END
$$;

-- outbox.plugin_retain(plugin, version): no new deliveries, but what it owes
-- still runs.  From inactive it makes a resume possible again.
CREATE OR REPLACE FUNCTION outbox.plugin_retain(plugin_id text, plugin_version text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    i outbox.installation;
BEGIN
    PERFORM outbox._need_read_committed();
    PERFORM outbox._authority_lock();
    i := outbox._installation(plugin_retain.plugin_id, plugin_retain.plugin_version);
    IF i.state = 'retained' THEN
        RETURN 'already';
    END IF;
    UPDATE outbox.installation x SET state = 'retained' WHERE x.installation_id = i.installation_id;
    PERFORM outbox._authority_changed(outbox._authority_next());
    PERFORM outbox._audit('plugin_retain', i.plugin_id || '@' || i.plugin_version);
    RETURN 'retained';
END
$$;

-- outbox.plugin_remove(plugin, version): the bundle may go.  OB031 while it
-- is active, OB035 while an unfinished delivery names it.
CREATE OR REPLACE FUNCTION outbox.plugin_remove(plugin_id text, plugin_version text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    i outbox.installation;
BEGIN
    PERFORM outbox._need_read_committed();
    PERFORM outbox._authority_lock();
    i := outbox._installation(plugin_remove.plugin_id, plugin_remove.plugin_version);
    IF i.state = 'active' THEN
        RAISE EXCEPTION 'plugin %@% is active', i.plugin_id, i.plugin_version
            USING ERRCODE = 'OB031', HINT = 'deactivate it first, or activate another version';
    ELSIF EXISTS (SELECT FROM outbox.target t
                   WHERE t.installation_id = i.installation_id
                     AND (EXISTS (SELECT FROM outbox.fresh f WHERE f.target_id = t.target_id)
                          OR EXISTS (SELECT FROM outbox.exception e WHERE e.target_id = t.target_id)))
    THEN
        RAISE EXCEPTION 'plugin %@% still owes deliveries', i.plugin_id, i.plugin_version
            USING ERRCODE = 'OB035',
                  HINT = 'deliver or discard them first: outboxctl delivery list --subscriber '
                      || i.plugin_id || '.<handler>';
    END IF;
    PERFORM outbox._plugin_leave(i.installation_id, 'removed');
    PERFORM outbox._audit('plugin_remove', i.plugin_id || '@' || i.plugin_version);
    RETURN 'removed';
END
$$;

-- -------------------------------------------------------------------- grants

-- outbox._grant_words(...): checks permission, resource and workspace of a
-- grant and answers the contract's key.  0A000: not in this version.
CREATE OR REPLACE FUNCTION outbox._grant_words(p_subscriber text, p_permission text,
    p_resource text, p_workspace text) RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_key bigint;
BEGIN
    IF p_permission IN ('event.publish', 'collection.write') THEN
        RAISE EXCEPTION 'permission % is not in this version', p_permission USING ERRCODE = '0A000';
    ELSIF p_permission IS DISTINCT FROM 'event.subscribe' THEN
        RAISE EXCEPTION 'permission "%" is not event.subscribe, event.publish or collection.write',
            p_permission USING ERRCODE = '22023';
    END IF;
    PERFORM outbox._check_label('workspace', p_workspace);
    IF NOT EXISTS (SELECT FROM outbox.subscriber s WHERE s.subscriber_id = p_subscriber) THEN
        RAISE EXCEPTION 'unknown subscriber %', p_subscriber
            USING ERRCODE = 'OB030', HINT = 'outboxctl subscriber list';
    END IF;
    SELECT k.contract_key INTO v_key FROM outbox.contract k
     WHERE k.contract_id || '@' || k.contract_version = p_resource;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown contract %', p_resource
            USING ERRCODE = 'OB030', HINT = 'a resource is ID@VERSION; outboxctl contract list';
    END IF;
    RETURN v_key;
END
$$;

-- outbox.grant_add(subscriber, permission, resource, workspace, version):
-- to one installation's handler.  Without a version: the active one, else
-- the one installed last.  'granted' | 'already'.
CREATE OR REPLACE FUNCTION outbox.grant_add(subscriber_id text, permission text, resource text,
    workspace text DEFAULT 'default', plugin_version text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_key bigint;
    v_target bigint;
    v_version text;
BEGIN
    PERFORM outbox._need_read_committed();
    PERFORM outbox._authority_lock();
    v_key := outbox._grant_words(grant_add.subscriber_id, grant_add.permission,
        grant_add.resource, grant_add.workspace);
    SELECT t.target_id, i.plugin_version INTO v_target, v_version
      FROM outbox.target t JOIN outbox.installation i ON i.installation_id = t.installation_id
     WHERE t.subscriber_id = grant_add.subscriber_id AND i.state <> 'removed'
       AND (grant_add.plugin_version IS NULL OR i.plugin_version = grant_add.plugin_version)
     ORDER BY (i.state = 'active') DESC, i.installation_id DESC LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no installation of % with version %', grant_add.subscriber_id,
            coalesce(grant_add.plugin_version, 'any')
            USING ERRCODE = 'OB030', HINT = 'outboxctl plugin list';
    ELSIF EXISTS (SELECT FROM outbox.permission_grant g
                   WHERE g.target_id = v_target AND g.permission = grant_add.permission
                     AND g.contract_key = v_key AND g.workspace = grant_add.workspace
                     AND g.revoked_at IS NULL) THEN
        RETURN 'already';
    END IF;
    INSERT INTO outbox.permission_grant (target_id, permission, contract_key, workspace, granted_by)
    VALUES (v_target, grant_add.permission, v_key, grant_add.workspace, session_user);
    PERFORM outbox._authority_changed(outbox._authority_next());
    PERFORM outbox._audit('grant_add', grant_add.subscriber_id, json_build_object(
        'permission', grant_add.permission, 'resource', grant_add.resource,
        'workspace', grant_add.workspace, 'plugin_version', v_version));
    RETURN 'granted';
END
$$;

-- outbox.grant_revoke(same words): every version unless one is named.
-- Answers how many grants were revoked.  Covers exactly the deliveries whose
-- workspace and contract no other active grant of that installation covers.
CREATE OR REPLACE FUNCTION outbox.grant_revoke(subscriber_id text, permission text, resource text,
    workspace text DEFAULT 'default', plugin_version text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
DECLARE
    v_key bigint;
    v_seq bigint;
    v_target bigint;
    v_count bigint := 0;
    v_rest text[];
BEGIN
    PERFORM outbox._need_read_committed();
    PERFORM outbox._authority_lock();
    v_key := outbox._grant_words(grant_revoke.subscriber_id, grant_revoke.permission,
        grant_revoke.resource, grant_revoke.workspace);
    FOR v_target IN
        SELECT g.target_id FROM outbox.permission_grant g
          JOIN outbox.target t ON t.target_id = g.target_id
          JOIN outbox.installation i ON i.installation_id = t.installation_id
         WHERE t.subscriber_id = grant_revoke.subscriber_id
           AND g.permission = grant_revoke.permission AND g.contract_key = v_key
           AND g.workspace = grant_revoke.workspace AND g.revoked_at IS NULL
           AND (grant_revoke.plugin_version IS NULL OR i.plugin_version = grant_revoke.plugin_version)
         ORDER BY g.target_id
    LOOP
        v_seq := coalesce(v_seq, outbox._authority_next());
        v_count := v_count + 1;
        UPDATE outbox.permission_grant g
           SET revoked_at = clock_timestamp(), revoked_by = session_user
         WHERE g.target_id = v_target AND g.permission = grant_revoke.permission
           AND g.contract_key = v_key AND g.workspace = grant_revoke.workspace
           AND g.revoked_at IS NULL;
        SELECT coalesce(array_agg(g.workspace), '{}') INTO v_rest FROM outbox.permission_grant g
         WHERE g.target_id = v_target AND g.permission = grant_revoke.permission
           AND g.contract_key = v_key AND g.revoked_at IS NULL;
        IF NOT '*' = ANY (v_rest) THEN
            PERFORM outbox._lapse(v_target, v_key, grant_revoke.workspace,
                CASE WHEN grant_revoke.workspace = '*' THEN v_rest ELSE '{}' END,
                'authority_revoked', v_seq);
        END IF;
    END LOOP;
    IF v_count > 0 THEN
        PERFORM outbox._authority_changed(v_seq);
        PERFORM outbox._audit('grant_revoke', grant_revoke.subscriber_id, json_build_object(
            'permission', grant_revoke.permission, 'resource', grant_revoke.resource,
            'workspace', grant_revoke.workspace, 'plugin_version', grant_revoke.plugin_version));
    END IF;
    RETURN v_count;
END
$$;
