-- 99_grants.sql: who may call and see what.  Nobody may write a table.

REVOKE ALL ON SCHEMA outbox FROM PUBLIC;
GRANT USAGE ON SCHEMA outbox TO outbox_publisher, outbox_dispatcher, outbox_operator, outbox_viewer;
REVOKE ALL ON ALL TABLES IN SCHEMA outbox FROM PUBLIC, outbox_publisher, outbox_dispatcher,
    outbox_operator, outbox_viewer;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA outbox FROM PUBLIC, outbox_publisher, outbox_dispatcher,
    outbox_operator, outbox_viewer;

GRANT EXECUTE ON FUNCTION
    outbox.publish(text, text, json, text, text, uuid, timestamptz, json, timestamptz),
    outbox.publish_many(text, text, json[], text, text[], uuid[], timestamptz[], json[], timestamptz[])
    TO outbox_publisher, outbox_operator;
GRANT EXECUTE ON FUNCTION outbox.event_status(uuid)
    TO outbox_publisher, outbox_operator, outbox_viewer;
GRANT EXECUTE ON FUNCTION outbox.schema_version()
    TO outbox_publisher, outbox_dispatcher, outbox_operator, outbox_viewer;

GRANT EXECUTE ON FUNCTION
    outbox.dispatch_targets(),
    outbox.heartbeat(uuid, text, bigint, text, bigint[], bigint, bigint, boolean, json),
    outbox.claim(uuid, bigint[], int[], bigint[], int[], bigint, bigint, int),
    outbox.settle(uuid, uuid[], bigint[], bigint[], int[], text[], bigint[], text[], text[], bigint[], int[], int[], text[]),
    outbox.renew(uuid, uuid[], bigint[], bigint[], int[], bigint[]),
    outbox.sleep_begin(uuid), outbox.sleep_end()
    TO outbox_dispatcher;

GRANT EXECUTE ON FUNCTION
    outbox.contract_add(text, text, json), outbox.contract_retire(text, text),
    outbox.plugin_install(json, text), outbox.plugin_activate(text, text, text, text),
    outbox.plugin_deactivate(text, text), outbox.plugin_retain(text, text),
    outbox.plugin_remove(text, text),
    outbox.grant_add(text, text, text, text, text), outbox.grant_revoke(text, text, text, text, text),
    outbox.pause(uuid, text, int, text), outbox.resume(uuid, text, int, text, text, text),
    outbox.retry_now(uuid, text, int), outbox.discard(uuid, text, int, text),
    outbox.release_claims(uuid), outbox.subscriber_pause(text, text),
    outbox.subscriber_resume(text), outbox.event_body(uuid)
    TO outbox_operator;
GRANT EXECUTE ON FUNCTION outbox.lane_status(int), outbox.horizon_holders(interval)
    TO outbox_operator, outbox_viewer, outbox_dispatcher;
GRANT EXECUTE ON FUNCTION
    outbox.delivery_list(text, text, text, text, timestamptz, int)
    TO outbox_operator, outbox_viewer;

GRANT SELECT ON outbox.deliveries, outbox.facts, outbox.contracts, outbox.installations,
    outbox.targets, outbox.grants, outbox.graphs, outbox.subscribers, outbox.daemons,
    outbox.attempts, outbox.audit, outbox.lanes, outbox.breakers, outbox.workers
    TO outbox_operator, outbox_viewer;
GRANT SELECT ON outbox.schema_migration, outbox.schema_functions, outbox.schema_function_hash
    TO outbox_operator, outbox_viewer, outbox_dispatcher;
