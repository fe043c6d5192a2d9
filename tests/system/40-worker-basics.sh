#!/bin/sh
# A worker plugin: what it is told, what it says, and what the database says.
. "$(dirname "$0")/lib.sh"
begin worker-basics
. "$ROOT/tests/system/daemon.sh"
setup 'dispatch: {lease: 20s, kill_grace: 500ms, settle_margin: 1s}'
cat >>"$T/outboxd.yaml" <<-YAML
	subscribers: {test.worker.h: {environment: {RECORD: "$RECORD"}}}
YAML
install worker
start_daemon "$T/outboxd.yaml"
e=$(publish '{"do": "ack"}')
becomes "an ack is delivered" "$e" "status = 'delivered'"
