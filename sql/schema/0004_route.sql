-- 0004_route.sql: what a single publish has to know, in one row.
-- Schema outbox; owner: outbox_owner.

-- It comes back with one more parameter.
DROP FUNCTION IF EXISTS outbox._claim_run(bigint, int, bigint, bigint, bigint);

CREATE TABLE outbox.route (
    contract_id text NOT NULL,
    contract_version text NOT NULL,
    workspace text NOT NULL,
    contract_key bigint NOT NULL REFERENCES outbox.contract,
    graph_id bigint NOT NULL REFERENCES outbox.graph,
    authority_seq bigint NOT NULL,
    has_schema boolean NOT NULL,
    target_ids bigint[] NOT NULL CHECK (cardinality(target_ids) > 0),
    PRIMARY KEY (contract_id, contract_version, workspace)
);
COMMENT ON TABLE outbox.route IS
    'derived from contracts and the graphs in force, anew with each change of authority: '
    'what anybody may publish and somebody gets.  Without a row publish looks at those';
COMMENT ON COLUMN outbox.route.workspace IS 'as in workspace_graph';

-- As outbox._routes() does it from now on.
INSERT INTO outbox.route (contract_id, contract_version, workspace, contract_key, graph_id,
    authority_seq, has_schema, target_ids)
SELECT k.contract_id, k.contract_version, w.workspace, k.contract_key, w.graph_id,
       w.authority_seq, k.body_schema IS NOT NULL, array_agg(g.target_id ORDER BY g.target_id)
  FROM outbox.workspace_graph w
  JOIN outbox.graph_target g ON g.graph_id = w.graph_id
  JOIN outbox.contract k ON k.contract_key = g.contract_key
 WHERE k.state = 'active' AND k.owner_plugin IS NULL
 GROUP BY k.contract_key, w.workspace;
