-- 0003_plain_lane.sql: claims and settles that are cheap for the usual lane.
-- Schema outbox; owner: outbox_owner.

-- It comes back with one more column.
DROP FUNCTION IF EXISTS outbox._claim_gate(bigint[]);
-- Now _settle_acked and _settle_others.
DROP FUNCTION IF EXISTS outbox._settle_fresh(uuid, uuid[], bigint[], bigint[], int[], text[], bigint[],
    text[], text[], bigint[], int[], int[], text[], timestamptz);

-- A claim of consecutive facts, as is usual, tells them by the first and their
-- number.  What a settle rewrites then is a tenth of a kilobyte, not four.
ALTER TABLE outbox.claim ADD COLUMN items int, ADD COLUMN first_id bigint;
UPDATE outbox.claim SET items = cardinality(fact_ids), first_id = fact_ids[1];
ALTER TABLE outbox.claim
    ALTER COLUMN items SET NOT NULL,
    ALTER COLUMN first_id SET NOT NULL,
    ALTER COLUMN fact_ids DROP NOT NULL,
    ADD CHECK (open <= items),
    ADD CHECK (cardinality(fact_ids) = items AND fact_ids[1] = first_id);
COMMENT ON COLUMN outbox.claim.fact_ids IS 'NULL: items facts from first_id on, one after the other';
COMMENT ON TABLE outbox.claim IS
    'one claim of fresh deliveries; those of its facts that still have a fresh row are in it';

-- One fact has few receipts: the target need not be in the key.
DROP INDEX IF EXISTS outbox.receipt_fact;
CREATE INDEX receipt_fact ON outbox.receipt (fact_id);
