#!/usr/bin/env node
'use strict';
/* hello - what to do with example.happened@v1. */
const { setTimeout: sleep } = require('timers/promises');
const outbox = require('./outbox-plugin.js');

/*
 * May be called again for the same event, so make the effect idempotent by
 * call.idempotencyKey.  call.signal is aborted when outboxd cancels the call;
 * what that makes throw is a retry.
 */
outbox.handler('hello', async (event, call) => {
	if (typeof event.data !== 'object' || event.data === null)
		return outbox.pause('the body is no object');
	if (event.data.sorry)
		return outbox.retry('not yet', { afterMs: 60000 });

	for (let step = 0; step < (event.data.steps ?? 1); step++) {
		await sleep(10, undefined, { signal: call.signal });
		call.progress();
	}

	call.log('info', 'hello', { event_id: event.id,
		attempt: call.attempt });
	return outbox.ack();
});

outbox.run({ maxInFlight: 16 });
