-- 10_views.sql: what people and tools may look at.  No view holds bodies.
-- Columns are only ever added at the end: upgrades re-create the views.

-- outbox.deliveries: every delivery, finished ones included.  A delivery that
-- has lost its authority is shown paused from the commit that took it away,
-- before any row of it is rewritten.  Each branch joins the fact itself, so
-- that "event_id = ..." reaches an index in all four.
CREATE OR REPLACE VIEW outbox.deliveries AS
SELECT d.event_id, k.contract_id, k.contract_version, d.workspace, d.subject,
       t.subscriber_id, d.generation, t.handler, t.handler_version,
       i.plugin_version, i.artifact_digest, g.fingerprint AS graph_fingerprint,
       CASE WHEN l.reason IS NOT NULL THEN 'paused' ELSE d.status END AS status,
       d.attempt_count, d.crash_count, d.available_at,
       CASE WHEN l.reason IS NULL THEN d.claim_id END AS claim_id,
       CASE WHEN l.reason IS NULL THEN d.claimed_by END AS claimed_by,
       CASE WHEN l.reason IS NULL THEN d.claimed_at END AS claimed_at,
       CASE WHEN l.reason IS NULL THEN d.claim_expires_at END AS claim_expires_at,
       d.delivered_at, coalesce(l.reason, d.pause_reason) AS pause_reason,
       CASE WHEN l.reason IS NULL OR d.pause_reason = l.reason THEN d.paused_at
            ELSE l.lapsed_at END AS paused_at,
       d.last_error, d.published_at, d.target_id, d.fact_id
  FROM (
    SELECT x.event_id, x.contract_key, x.graph_id, x.workspace, x.subject, x.published_at,
           f.target_id, f.fact_id, 1 AS generation,
           CASE WHEN c.claim_id IS NULL THEN 'pending' ELSE 'claimed' END AS status,
           (c.claim_id IS NOT NULL)::int AS attempt_count, 0 AS crash_count,
           x.published_at AS available_at, c.claim_id, c.worker AS claimed_by,
           c.claimed_at, c.expires_at AS claim_expires_at, NULL::timestamptz AS delivered_at,
           NULL::text AS pause_reason, NULL::timestamptz AS paused_at, NULL::text AS last_error,
           x.authority_seq AS unfinished_seq
      FROM outbox.fact x
      JOIN outbox.target o ON true -- the key of fresh begins with the target
      JOIN outbox.fresh f ON f.target_id = o.target_id AND f.fact_id = x.fact_id
      LEFT JOIN LATERAL (SELECT y.claim_id, y.worker, y.claimed_at, y.expires_at
                           FROM outbox.claim y
                          WHERE y.target_id = f.target_id AND CASE WHEN y.fact_ids IS NULL
                                THEN f.fact_id BETWEEN y.first_id AND y.first_id + y.items - 1
                                ELSE f.fact_id = ANY (y.fact_ids) END
                          LIMIT 1) c ON true
    UNION ALL
    SELECT x.event_id, x.contract_key, x.graph_id, x.workspace, x.subject, x.published_at,
           e.target_id, e.fact_id, e.generation, e.status, e.attempt_count, e.crash_count,
           e.available_at, e.claim_id, e.claimed_by, e.claimed_at, e.claim_expires_at, NULL,
           e.pause_reason, e.paused_at, e.last_error, e.authority_seq
      FROM outbox.fact x
      JOIN outbox.target o ON true
      JOIN outbox.exception e ON e.target_id = o.target_id AND e.fact_id = x.fact_id
    UNION ALL
    SELECT x.event_id, x.contract_key, x.graph_id, x.workspace, x.subject, x.published_at,
           r.target_id, r.fact_id, r.generation, 'delivered', r.attempt_count, 0,
           NULL, r.claim_id, r.worker, NULL, NULL, r.delivered_at, NULL, NULL, NULL, NULL
      FROM outbox.fact x JOIN outbox.receipt r ON r.fact_id = x.fact_id
    UNION ALL
    SELECT x.event_id, x.contract_key, x.graph_id, x.workspace, x.subject, x.published_at,
           z.target_id, z.fact_id, z.generation, 'discarded', z.attempt_count, z.crash_count,
           NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, z.last_error, NULL
      FROM outbox.fact x
      JOIN outbox.target o ON true
      JOIN outbox.discarded z ON z.target_id = o.target_id AND z.fact_id = x.fact_id
  ) d
  JOIN outbox.contract k ON k.contract_key = d.contract_key
  JOIN outbox.target t ON t.target_id = d.target_id
  JOIN outbox.installation i ON i.installation_id = t.installation_id
  LEFT JOIN outbox.graph g ON g.graph_id = d.graph_id
  LEFT JOIN LATERAL (
    SELECT y.reason, y.lapsed_at FROM outbox.lapse y
     WHERE y.target_id = d.target_id AND y.authority_seq > d.unfinished_seq
       AND (y.contract_key IS NULL OR y.contract_key = d.contract_key)
       AND (y.workspace = d.workspace
            OR y.workspace = '*' AND d.workspace <> ALL (y.except_workspaces))
     ORDER BY y.lapse_id DESC LIMIT 1) l ON d.unfinished_seq IS NOT NULL;

-- outbox.facts: without bodies.  delivered is derived: nothing unfinished is
-- left of it and nothing was discarded.
CREATE OR REPLACE VIEW outbox.facts AS
SELECT x.event_id, k.contract_id, k.contract_version, x.workspace, x.subject, x.occurred_at,
       x.published_at, x.available_at, octet_length(x.body::text) AS body_bytes, x.headers,
       g.fingerprint AS graph_fingerprint,
       NOT EXISTS (SELECT FROM outbox.graph_target t
                    WHERE t.graph_id = x.graph_id AND t.contract_key = x.contract_key
                      AND (EXISTS (SELECT FROM outbox.fresh f
                                    WHERE f.target_id = t.target_id AND f.fact_id = x.fact_id)
                           OR EXISTS (SELECT FROM outbox.exception e
                                       WHERE e.target_id = t.target_id AND e.fact_id = x.fact_id)
                           OR EXISTS (SELECT FROM outbox.discarded z
                                       WHERE z.target_id = t.target_id AND z.fact_id = x.fact_id)))
       AND g.graph_id IS NOT NULL AS delivered, x.fact_id
  FROM outbox.fact x
  JOIN outbox.contract k ON k.contract_key = x.contract_key
  LEFT JOIN outbox.graph g ON g.graph_id = x.graph_id;

CREATE OR REPLACE VIEW outbox.contracts AS
SELECT k.contract_id, k.contract_version, k.owner_plugin, k.state, k.body_schema,
       k.added_at, k.retired_at
  FROM outbox.contract k;

CREATE OR REPLACE VIEW outbox.installations AS
SELECT i.plugin_id, i.plugin_version, i.artifact_digest, i.state, i.protocol, i.manifest,
       i.installed_at, i.activated_at
  FROM outbox.installation i;

CREATE OR REPLACE VIEW outbox.targets AS
SELECT t.target_id, t.subscriber_id, i.plugin_id, i.plugin_version, i.artifact_digest,
       t.handler, t.handler_version, i.state AS installation_state
  FROM outbox.target t
  JOIN outbox.installation i ON i.installation_id = t.installation_id;

CREATE OR REPLACE VIEW outbox.grants AS
SELECT t.subscriber_id, i.plugin_version, p.permission,
       k.contract_id || '@' || k.contract_version AS resource, p.workspace,
       p.granted_at, p.granted_by, p.revoked_at, p.revoked_by
  FROM outbox.permission_grant p
  JOIN outbox.target t ON t.target_id = p.target_id
  JOIN outbox.installation i ON i.installation_id = t.installation_id
  JOIN outbox.contract k ON k.contract_key = p.contract_key;

CREATE OR REPLACE VIEW outbox.graphs AS
SELECT w.workspace, g.fingerprint, g.document, g.compiled_at, w.authority_seq
  FROM outbox.workspace_graph w
  JOIN outbox.graph g ON g.graph_id = w.graph_id;

CREATE OR REPLACE VIEW outbox.subscribers AS
SELECT s.subscriber_id, s.paused_at IS NOT NULL AS paused, s.pause_reason, s.paused_at, s.paused_by,
       regexp_replace(s.subscriber_id, '^.*\.', '') AS handler,
       (SELECT i.plugin_version FROM outbox.target t
          JOIN outbox.installation i ON i.installation_id = t.installation_id
         WHERE t.subscriber_id = s.subscriber_id AND i.state = 'active') AS active_version
  FROM outbox.subscriber s;

CREATE OR REPLACE VIEW outbox.daemons AS
SELECT d.worker, d.host, d.pid, d.version, d.started_at, d.last_seen_at,
       d.last_seen_at > statement_timestamp() - interval '15 s' AND NOT d.stopping AS alive,
       d.stopping, d.target_ids, d.max_bytes, d.detail
  FROM outbox.daemon d;

-- outbox.breakers: lanes that a living daemon does not serve now, or serves
-- one call at a time, because their handlers failed one after the other.
CREATE OR REPLACE VIEW outbox.breakers AS
SELECT d.worker, d.host, d.pid, (b ->> 'target_id')::bigint AS target_id,
       b ->> 'subscriber_id' AS subscriber_id, b ->> 'plugin_version' AS plugin_version,
       b ->> 'state' AS state, (b ->> 'failures')::bigint AS failures,
       greatest((b ->> 'open_ms')::bigint
           - (extract(epoch FROM statement_timestamp() - d.last_seen_at) * 1000)::bigint, 0) AS open_ms,
       b ->> 'reason' AS reason
  FROM outbox.daemon d
 CROSS JOIN LATERAL json_array_elements(CASE json_typeof(d.detail -> 'breakers')
       WHEN 'array' THEN d.detail -> 'breakers' ELSE '[]' END) b
 WHERE d.last_seen_at > statement_timestamp() - interval '15 s' AND NOT d.stopping;

-- outbox.workers: the processes of worker plugins in living daemons.
CREATE OR REPLACE VIEW outbox.workers AS
SELECT d.worker, d.host, d.pid, w ->> 'plugin_id' AS plugin_id,
       w ->> 'plugin_version' AS plugin_version, (w ->> 'processes')::bigint AS processes,
       (w ->> 'ready')::bigint AS ready, (w ->> 'in_flight')::bigint AS in_flight,
       (w ->> 'restarts')::bigint AS restarts, w ->> 'error' AS error
  FROM outbox.daemon d
 CROSS JOIN LATERAL json_array_elements(CASE json_typeof(d.detail -> 'workers')
       WHEN 'array' THEN d.detail -> 'workers' ELSE '[]' END) w
 WHERE d.last_seen_at > statement_timestamp() - interval '15 s' AND NOT d.stopping;

CREATE OR REPLACE VIEW outbox.attempts AS
SELECT x.event_id, t.subscriber_id, a.generation, a.attempt, a.outcome, a.verdict, a.claim_id,
       a.worker, a.ended_at, a.run_ms, a.exit_code, a.signal, a.error
  FROM outbox.attempt a
  JOIN outbox.fact x ON x.fact_id = a.fact_id
  JOIN outbox.target t ON t.target_id = a.target_id;

CREATE OR REPLACE VIEW outbox.audit AS
SELECT a.at, a.who, a.action, a.object, a.detail FROM outbox.audit_log a;

-- outbox.lanes: one row a target that a daemon may be asked to run.
CREATE OR REPLACE VIEW outbox.lanes AS
SELECT t.target_id, t.subscriber_id, i.plugin_version, i.artifact_digest, t.handler_version,
       i.state AS installation_state, s.paused_at IS NOT NULL AS subscriber_paused,
       (SELECT count(*) FROM outbox.daemon d
         WHERE d.last_seen_at > statement_timestamp() - interval '15 s' AND NOT d.stopping
           AND t.target_id = ANY (d.target_ids)) AS daemons,
       coalesce((SELECT sum(c.open) FROM outbox.claim c
                  WHERE c.target_id = t.target_id AND c.expires_at > statement_timestamp()), 0)
       + (SELECT count(*) FROM outbox.exception e
           WHERE e.target_id = t.target_id AND e.status = 'claimed' AND NOT e.expired
             AND e.claim_expires_at > statement_timestamp()) AS in_flight,
       coalesce(a.absent_ms, 0) AS unavailable_ms, t.handler, i.plugin_id
  FROM outbox.target t
  JOIN outbox.installation i ON i.installation_id = t.installation_id
  JOIN outbox.subscriber s ON s.subscriber_id = t.subscriber_id
  LEFT JOIN outbox.absence a ON a.target_id = t.target_id
 WHERE i.state <> 'removed';

-- outbox.event_status(event): how far each subscriber's delivery is.
CREATE OR REPLACE FUNCTION outbox.event_status(event_id uuid)
RETURNS TABLE (subscriber_id text, generation int, status text, attempt_count int,
    pause_reason text, delivered_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
    SELECT d.subscriber_id, d.generation, d.status, d.attempt_count, d.pause_reason, d.delivered_at
      FROM outbox.deliveries d
     WHERE d.event_id = event_status.event_id
     ORDER BY d.subscriber_id COLLATE "C", d.generation
$$;

-- outbox.lane_status(cap): for each lane how many deliveries wait, are
-- claimed and are paused, each count ended at the cap (a number equal to it
-- reads "at least"), and the oldest that waits.  Bounded whatever the backlog.
CREATE OR REPLACE FUNCTION outbox.lane_status(p_cap int DEFAULT 1000)
RETURNS TABLE (target_id bigint, subscriber_id text, plugin_version text, installation_state text,
    subscriber_paused boolean, daemons bigint, pending bigint, claimed bigint, paused bigint,
    oldest_pending_ms bigint, expired_claims bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
    -- those seen already; looked for among as many claimed ones as the cap
    WITH expired AS MATERIALIZED (
        SELECT q.target_id, count(*) AS n
          FROM (SELECT e.target_id, e.expired FROM outbox.exception e
                 WHERE e.claimed_by IS NOT NULL LIMIT p_cap) q
         WHERE q.expired GROUP BY q.target_id)
    SELECT l.target_id, l.subscriber_id, l.plugin_version, l.installation_state,
           l.subscriber_paused, l.daemons,
           (SELECT count(*) FROM (SELECT FROM outbox.fresh f
                                   WHERE f.target_id = l.target_id AND f.fact_id > (
                                         SELECT p.pos FROM outbox.lane p WHERE p.target_id = l.target_id)
                                   LIMIT p_cap) q)
           -- what has a due_at is pending or an expired claim; read off the index alone
           + (SELECT count(*) FROM (SELECT FROM outbox.exception e WHERE e.target_id = l.target_id
                                       AND e.due_at IS NOT NULL LIMIT p_cap + coalesce(x.n, 0)) q)
           - coalesce(x.n, 0),
           l.in_flight::bigint,
           (SELECT count(*) FROM (SELECT FROM outbox.exception e WHERE e.target_id = l.target_id
                                     AND e.status = 'paused' LIMIT p_cap) q),
           (extract(epoch FROM statement_timestamp() - least(
               (SELECT x.published_at FROM outbox.fact x WHERE x.fact_id = (
                    SELECT f.fact_id FROM outbox.fresh f
                     WHERE f.target_id = l.target_id AND f.fact_id > (
                           SELECT p.pos FROM outbox.lane p WHERE p.target_id = l.target_id)
                     ORDER BY f.fact_id LIMIT 1)),
               (SELECT e.due_at FROM outbox.exception e WHERE e.target_id = l.target_id
                   AND e.due_at <= statement_timestamp() ORDER BY e.due_at LIMIT 1))) * 1000)::bigint,
           (SELECT count(*) FROM (SELECT FROM outbox.claim c WHERE c.target_id = l.target_id
                                     AND c.expires_at <= statement_timestamp() LIMIT p_cap) q)
           + (SELECT count(*) FROM (SELECT FROM outbox.exception e WHERE e.target_id = l.target_id
                                       AND e.status = 'claimed' AND NOT e.expired
                                       AND e.claim_expires_at <= statement_timestamp() LIMIT p_cap) q)
           + coalesce(x.n, 0)
      FROM outbox.lanes l
      LEFT JOIN expired x ON x.target_id = l.target_id
     ORDER BY l.subscriber_id COLLATE "C", l.target_id
$$;
