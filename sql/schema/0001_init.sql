-- 0001_init.sql: tables and constraints.  Run as outbox_owner.
--
-- The physical design in one paragraph.  publish writes a fact and, for each
-- target, one row in "fresh" that holds nothing but its key.  A claim writes
-- one row for the whole batch and moves the lane's position; it touches no
-- delivery.  Whatever is not fresh any more (retried, released, paused,
-- delayed, taken over, found late, renewed alone) has a full row in
-- "exception".  An ACK deletes the delivery and appends a receipt.  So no
-- row is updated on the straight path, and nothing there bloats.
--
-- Lock order, everywhere: authority -> lane -> claim -> delivery.

-- New functions are nobody's until granted (see 99_grants.sql).
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

CREATE TABLE outbox.schema_migration (
    file text PRIMARY KEY,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE outbox.schema_functions (
    file text PRIMARY KEY,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE outbox.schema_function_hash (
    signature text PRIMARY KEY,
    hash text NOT NULL
);

-- ---------------------------------------------------------------- contracts

CREATE TABLE outbox.contract (
    contract_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    contract_id text NOT NULL
        CHECK (octet_length(contract_id) <= 256
               AND contract_id ~ '^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$'),
    contract_version text NOT NULL
        CHECK (contract_version ~ '^[A-Za-z0-9._-]{1,64}$'),
    owner_plugin text,
    body_schema json,
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'retired')),
    added_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    retired_at timestamptz,
    UNIQUE (contract_id, contract_version),
    CHECK ((state = 'retired') = (retired_at IS NOT NULL)),
    CHECK (owner_plugin IS NULL OR starts_with(contract_id, owner_plugin || '.'))
);

-- ------------------------------------------------- installations and grants

CREATE TABLE outbox.installation (
    installation_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    plugin_id text NOT NULL
        CHECK (octet_length(plugin_id) <= 256
               AND plugin_id ~ '^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$'),
    plugin_version text NOT NULL
        CHECK (plugin_version ~ '^[A-Za-z0-9._-]{1,64}$'),
    artifact_digest text NOT NULL
        CHECK (artifact_digest ~ '^sha256:[0-9a-f]{64}$'),
    protocol text NOT NULL CHECK (protocol IN ('exec', 'worker')),
    manifest json NOT NULL,
    state text NOT NULL DEFAULT 'inactive'
        CHECK (state IN ('active', 'retained', 'inactive', 'removed')),
    installed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    activated_at timestamptz,
    UNIQUE (plugin_id, plugin_version),
    CHECK (state <> 'active' OR activated_at IS NOT NULL)
);
CREATE UNIQUE INDEX installation_one_active
    ON outbox.installation (plugin_id) WHERE state = 'active';

CREATE TABLE outbox.subscriber (
    subscriber_id text PRIMARY KEY CHECK (octet_length(subscriber_id) <= 256),
    paused_at timestamptz,
    pause_reason text,
    paused_by text,
    CHECK ((paused_at IS NULL) = (pause_reason IS NULL)
           AND (paused_at IS NULL) = (paused_by IS NULL))
);

-- A target is what a delivery is bound to; it never changes.
CREATE TABLE outbox.target (
    target_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    installation_id bigint NOT NULL REFERENCES outbox.installation,
    subscriber_id text NOT NULL REFERENCES outbox.subscriber,
    handler text NOT NULL CHECK (handler ~ '^[a-z][a-z0-9_]*$'),
    handler_version text NOT NULL
        CHECK (handler_version ~ '^[A-Za-z0-9._-]{1,64}$'),
    UNIQUE (installation_id, handler)
);
CREATE INDEX target_subscriber ON outbox.target (subscriber_id);

-- What a handler's manifest asks for.  A wish, not a grant.
CREATE TABLE outbox.subscription (
    target_id bigint NOT NULL REFERENCES outbox.target,
    contract_id text NOT NULL,
    contract_version text NOT NULL,
    PRIMARY KEY (target_id, contract_id, contract_version)
);

CREATE TABLE outbox.permission_grant (
    grant_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target_id bigint NOT NULL REFERENCES outbox.target,
    permission text NOT NULL CHECK (permission IN ('event.subscribe')),
    contract_key bigint NOT NULL REFERENCES outbox.contract,
    workspace text NOT NULL
        CHECK (workspace ~ '[^[:space:]]' AND octet_length(workspace) <= 256),
    granted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    granted_by text NOT NULL,
    revoked_at timestamptz,
    revoked_by text,
    CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
CREATE UNIQUE INDEX permission_grant_active
    ON outbox.permission_grant (target_id, permission, contract_key, workspace)
    WHERE revoked_at IS NULL;

-- One row.  Every change of authority locks it and takes the next seq, so
-- changes happen one after the other; nobody on the delivery path waits for it.
CREATE TABLE outbox.authority (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq bigint NOT NULL
);
INSERT INTO outbox.authority (seq) VALUES (1);

-- A coverage that ended.  A delivery frozen at an authority_seq below this
-- one and covered by it has lost its authority for good: a later grant has a
-- later seq and does not bring it back, only a validated resume does.
CREATE TABLE outbox.lapse (
    lapse_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    authority_seq bigint NOT NULL,
    target_id bigint NOT NULL REFERENCES outbox.target,
    contract_key bigint REFERENCES outbox.contract, -- NULL: every contract
    workspace text NOT NULL,                        -- '*': every workspace ...
    except_workspaces text[] NOT NULL DEFAULT '{}', -- ... but these
    reason text NOT NULL
        CHECK (reason IN ('authority_revoked', 'installation_inactive')),
    lapsed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX lapse_target ON outbox.lapse (target_id, authority_seq);

-- ------------------------------------------------------------------- graphs

CREATE TABLE outbox.graph (
    graph_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint text NOT NULL UNIQUE
        CHECK (fingerprint ~ '^sha256:[0-9a-f]{64}$'),
    document json NOT NULL,
    compiled_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE outbox.graph_target (
    graph_id bigint NOT NULL REFERENCES outbox.graph ON DELETE CASCADE,
    contract_key bigint NOT NULL REFERENCES outbox.contract,
    target_id bigint NOT NULL REFERENCES outbox.target,
    PRIMARY KEY (graph_id, contract_key, target_id)
);

-- The graph in force, and the authority it stands for, read in one row by
-- publish: '*', and one row for each workspace with grants of its own.
CREATE TABLE outbox.workspace_graph (
    workspace text PRIMARY KEY,
    graph_id bigint NOT NULL REFERENCES outbox.graph,
    authority_seq bigint NOT NULL
);

-- -------------------------------------------------------------------- facts

-- No foreign keys here and below on the delivery path: they cost a third of
-- the publish rate and a share lock on hot rows; the functions guard instead.
CREATE TABLE outbox.fact (
    fact_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id uuid NOT NULL UNIQUE,
    contract_key bigint NOT NULL,
    graph_id bigint NOT NULL,
    authority_seq bigint NOT NULL,
    frame_bytes bigint NOT NULL CHECK (frame_bytes > 0),
    published_at timestamptz NOT NULL,
    occurred_at timestamptz NOT NULL,
    available_at timestamptz,
    workspace text NOT NULL
        CHECK (workspace ~ '[^[:space:]]' AND octet_length(workspace) <= 256),
    subject text
        CHECK (subject ~ '[^[:space:]]' AND octet_length(subject) <= 256),
    headers json,
    body json NOT NULL
);
COMMENT ON COLUMN outbox.fact.frame_bytes IS
    'upper bound in bytes of the whole event as a handler gets it';

-- --------------------------------------------------------------- deliveries

CREATE TABLE outbox.fresh (
    target_id bigint NOT NULL,
    fact_id bigint NOT NULL,
    PRIMARY KEY (target_id, fact_id)
);

CREATE TABLE outbox.lane (
    target_id bigint PRIMARY KEY REFERENCES outbox.target,
    pos bigint NOT NULL DEFAULT 0,
    low bigint NOT NULL DEFAULT 0,
    check_pos bigint NOT NULL DEFAULT 0,
    check_xid xid8 NOT NULL DEFAULT '0',
    swept_at timestamptz NOT NULL DEFAULT '-infinity',
    CHECK (low <= check_pos AND check_pos <= pos)
) WITH (fillfactor = 20);
COMMENT ON COLUMN outbox.lane.pos IS
    'fresh rows up to here are claimed, settled, or committed late';
COMMENT ON COLUMN outbox.lane.low IS
    'no fresh row up to here can appear any more: its publisher has ended';
COMMENT ON COLUMN outbox.lane.check_xid IS
    'low may move to check_pos once every transaction before this one has ended';

CREATE TABLE outbox.claim (
    claim_id uuid PRIMARY KEY,
    worker uuid NOT NULL,
    target_id bigint NOT NULL,
    claimed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    open int NOT NULL CHECK (open > 0),
    split boolean NOT NULL DEFAULT false,
    fact_ids bigint[] NOT NULL,
    CHECK (expires_at > claimed_at)
) WITH (fillfactor = 50, toast_tuple_target = 8160); -- settle reads fact_ids[ord] in place
CREATE INDEX claim_expiry ON outbox.claim (target_id, expires_at);
CREATE INDEX claim_worker ON outbox.claim (worker);
COMMENT ON TABLE outbox.claim IS
    'one claim of fresh deliveries; those of fact_ids that still have a fresh row are in it';
COMMENT ON COLUMN outbox.claim.split IS
    'some of its deliveries left it without being settled and may be exceptions';

CREATE TABLE outbox.exception (
    target_id bigint NOT NULL,
    fact_id bigint NOT NULL,
    generation int NOT NULL DEFAULT 1 CHECK (generation > 0),
    status text NOT NULL CHECK (status IN ('pending', 'claimed', 'paused')),
    attempt_count int NOT NULL CHECK (attempt_count >= 0),
    crash_count int NOT NULL DEFAULT 0 CHECK (crash_count >= 0),
    authority_seq bigint NOT NULL,
    available_at timestamptz NOT NULL,
    due_at timestamptz,
    claim_id uuid,
    claimed_by uuid,
    claimed_at timestamptz,
    claim_expires_at timestamptz,
    max_crashes int,
    expired boolean NOT NULL DEFAULT false,
    pause_reason text,
    paused_at timestamptz,
    oversize_since timestamptz,
    last_error text CHECK (octet_length(last_error) <= 4096),
    PRIMARY KEY (target_id, fact_id),
    CHECK ((status = 'claimed') = (claim_id IS NOT NULL)
           AND (claim_id IS NULL) = (claimed_by IS NULL)
           AND (claim_id IS NULL) = (claimed_at IS NULL)
           AND (claim_id IS NULL) = (claim_expires_at IS NULL)),
    CHECK ((status = 'paused') = (pause_reason IS NOT NULL)
           AND (pause_reason IS NULL) = (paused_at IS NULL)),
    CHECK (pause_reason IN ('frozen_graph_unavailable',
        'frozen_handler_unavailable', 'authority_revoked',
        'installation_inactive', 'retry_budget_exhausted', 'crash_loop',
        'handler_rejected', 'result_rejected', 'exceeds_memory_budget',
        'operator')),
    CHECK (CASE status
           WHEN 'pending' THEN NOT expired AND due_at = available_at
           WHEN 'paused' THEN NOT expired AND due_at IS NULL
           ELSE CASE WHEN expired THEN due_at = claim_expires_at
                ELSE due_at IS NULL END
           END)
) WITH (fillfactor = 70);
CREATE INDEX exception_due ON outbox.exception (target_id, due_at, fact_id)
    WHERE due_at IS NOT NULL;
CREATE INDEX exception_expiry ON outbox.exception (target_id, claim_expires_at)
    WHERE status = 'claimed' AND NOT expired;
CREATE INDEX exception_paused ON outbox.exception (target_id, fact_id)
    WHERE status = 'paused';
CREATE INDEX exception_oversize ON outbox.exception (oversize_since)
    WHERE oversize_since IS NOT NULL;
CREATE INDEX exception_worker ON outbox.exception (claimed_by)
    WHERE claimed_by IS NOT NULL;
COMMENT ON COLUMN outbox.exception.due_at IS
    'when it may be claimed; NULL while it may not. An expired claim is due from its expiry';

CREATE TABLE outbox.receipt (
    fact_id bigint NOT NULL,
    target_id bigint NOT NULL,
    generation int NOT NULL,
    attempt_count int NOT NULL,
    claim_id uuid NOT NULL,
    worker uuid NOT NULL,
    delivered_at timestamptz NOT NULL
) PARTITION BY RANGE (delivered_at);
CREATE INDEX receipt_fact ON outbox.receipt (fact_id, target_id);
-- Catches what no partition was made for in time; kept empty by the daemon.
CREATE TABLE outbox.receipt_default PARTITION OF outbox.receipt DEFAULT;

CREATE TABLE outbox.discarded (
    target_id bigint NOT NULL,
    fact_id bigint NOT NULL,
    generation int NOT NULL,
    attempt_count int NOT NULL,
    crash_count int NOT NULL,
    last_error text,
    discarded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    discarded_by text NOT NULL,
    reason text NOT NULL CHECK (reason ~ '[^[:space:]]'),
    PRIMARY KEY (target_id, fact_id, generation)
);

-- Attempts that did not simply succeed.  An expired claim has no verdict.
CREATE TABLE outbox.attempt (
    fact_id bigint NOT NULL,
    target_id bigint NOT NULL,
    generation int NOT NULL,
    attempt int NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('ok', 'failed', 'timed_out',
        'crashed', 'oom', 'bad_result', 'protocol_error', 'rejected',
        'unavailable', 'interrupted', 'not_started')),
    verdict text CHECK (verdict IN ('retry', 'pause', 'release')),
    claim_id uuid NOT NULL,
    worker uuid NOT NULL,
    ended_at timestamptz NOT NULL,
    run_ms bigint,
    exit_code int,
    signal int,
    error text CHECK (octet_length(error) <= 4096)
);
CREATE INDEX attempt_fact ON outbox.attempt (fact_id, target_id);

-- ------------------------------------------------------------ daemons, audit

-- Advisory: no claim's life depends on these rows.
CREATE TABLE outbox.daemon (
    worker uuid PRIMARY KEY,
    host text NOT NULL,
    pid bigint NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    contact_since timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stopping boolean NOT NULL DEFAULT false,
    target_ids bigint[] NOT NULL,
    max_bytes bigint NOT NULL
) WITH (fillfactor = 50);

-- How long no living daemon has offered a target; counted only while one lives.
CREATE TABLE outbox.absence (
    target_id bigint PRIMARY KEY REFERENCES outbox.target,
    absent_ms bigint NOT NULL DEFAULT 0,
    checked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE outbox.duty (
    name text PRIMARY KEY,
    done_at timestamptz NOT NULL
);
INSERT INTO outbox.duty VALUES ('sweep', '-infinity'), ('partitions', '-infinity');

CREATE TABLE outbox.audit_log (
    audit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    who text NOT NULL,
    action text NOT NULL,
    object text NOT NULL,
    detail json
);
