-- 30_horizon.sql: who keeps dead rows from being vacuumed.

-- outbox.horizon_holders(older): at most five sessions, prepared
-- transactions, replication slots and standbys whose snapshot or transaction
-- has held this database's horizon for longer than that, the one that holds
-- it furthest back first.  Slots and standbys, of which nobody knows since
-- when, count from 100,000 transactions on.  held_ms is null for them.
--
-- Other people's sessions are seen only if outbox_owner is a member of
-- pg_read_all_stats, which "outboxctl schema install" grants where it may.
CREATE OR REPLACE FUNCTION outbox.horizon_holders(p_older interval DEFAULT '1 minute')
RETURNS TABLE (kind text, pid int, name text, application text, state text, held_ms bigint,
    xids bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, outbox, pg_temp
AS $$
    SELECT h.kind, h.pid, h.name, h.application, h.state,
           (extract(epoch FROM clock_timestamp() - h.since) * 1000)::bigint, h.xids::bigint
      FROM (
        SELECT 'session', a.pid, a.usename::text, a.application_name, a.state, a.xact_start,
               greatest(age(a.backend_xmin), age(a.backend_xid))
          FROM pg_stat_activity a
         WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
           AND a.backend_type NOT IN ('autovacuum worker', 'walsender')
           AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = a.pid)
        UNION ALL
        SELECT 'prepared', NULL, p.owner::text, p.gid, NULL, p.prepared, age(p.transaction)
          FROM pg_prepared_xacts p WHERE p.database = current_database()
        UNION ALL
        SELECT 'slot', s.active_pid, s.slot_name::text, NULL,
               CASE WHEN s.active THEN 'active' ELSE 'inactive' END, NULL, age(s.xmin)
          FROM pg_replication_slots s
        UNION ALL
        SELECT 'standby', r.pid, r.usename::text, r.application_name, r.state, NULL,
               age(r.backend_xmin)
          FROM pg_stat_replication r
      ) h (kind, pid, name, application, state, since, xids)
     WHERE h.xids IS NOT NULL
       AND CASE WHEN h.since IS NULL THEN h.xids > 100000
                ELSE h.since < clock_timestamp() - p_older END
     ORDER BY h.xids DESC, h.since LIMIT 5
$$;
