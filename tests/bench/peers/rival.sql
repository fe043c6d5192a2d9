-- rival.sql: tables of the small workers in rival.c.
CREATE SCHEMA rival;

CREATE TABLE rival.job (
    job_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state text NOT NULL DEFAULT 'ready',
    run_at timestamptz NOT NULL DEFAULT now(),
    attempts int NOT NULL DEFAULT 0,
    locked_at timestamptz,
    done_at timestamptz,
    body json NOT NULL
);
CREATE INDEX job_ready ON rival.job (run_at, job_id) WHERE state = 'ready';

CREATE TABLE rival.message (
    msg_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    read_ct int NOT NULL DEFAULT 0,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    vt timestamptz NOT NULL DEFAULT clock_timestamp(),
    body json NOT NULL
);
CREATE INDEX message_vt ON rival.message (vt);
