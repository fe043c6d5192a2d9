-- 0003_plain_lane.sql: claims and settles that are cheap for the usual lane.
-- Schema outbox; owner: outbox_owner.

-- It comes back with one more column.
DROP FUNCTION IF EXISTS outbox._claim_gate(bigint[]);
-- Now _settle_acked and _settle_others.
DROP FUNCTION IF EXISTS outbox._settle_fresh(uuid, uuid[], bigint[], bigint[], int[], text[], bigint[],
    text[], text[], bigint[], int[], int[], text[], timestamptz);
