-- 0002_daemon_detail.sql: what a daemon tells of itself beside its targets.
-- Schema outbox; owner: outbox_owner.  Advisory like the rest of the row.

ALTER TABLE outbox.daemon ADD COLUMN detail json;
COMMENT ON COLUMN outbox.daemon.detail IS
    'for people and status: breakers that are not closed, worker processes, isolation';

-- Where it is there already: it comes back with one more parameter, which has a default.
DROP FUNCTION IF EXISTS outbox.heartbeat(uuid, text, bigint, text, bigint[], bigint, bigint, boolean);
-- It comes back with one more column.
DROP FUNCTION IF EXISTS outbox.dispatch_targets();
