'use strict';
/* The handlers that worker.script, exec.script and throw.script ask for. */
const { exec } = require('child_process');
const { setTimeout: sleep } = require('timers/promises');
const outbox = require('../../sdk/node/outbox-plugin.js');

let open;
const opened = new Promise((resolve) => {
	open = resolve;
});

const all = {
	ack: () => outbox.ack(),
	retry: () => outbox.retry('later please', { afterMs: 1500 }),
	pause: () => outbox.pause('no good'),
	down: () => outbox.unavailable('target is down'),
	broken: () => undefined,
	throw: () => {
		throw new TypeError('thrown');
	},
	facts: (e, call) => outbox.retry([e.id, e.source, e.type,
		e.contractVersion, e.workspace, e.subject, e.time,
		e.attributes.traceparent, call.handler, call.handlerVersion,
		call.subscriber, call.idempotencyKey,
		`${call.attempt}/${call.maxAttempts}`].join('|')),
	echo: (event) => outbox.retry(event.dataText),
	data: (event) => outbox.retry(event.data.name.first.normalize()),
	size: (event) => outbox.retry(event.dataText.length),
	weird: () => outbox.retry('a\n"\x01\0\ud800' + 'é'.repeat(5000),
	    { afterMs: -5 }),
	gate: async () => {
		await opened;
		return outbox.ack();
	},
	open: () => {
		open();
		return outbox.ack();
	},
	wait: async (event, call) => {
		console.log('waiting');
		call.progress();
		try {
			await sleep(10000, undefined, { signal: call.signal });
		} catch {
			return outbox.retry(`cancelled: ${call.cancelReason}`);
		}
		return outbox.pause('not cancelled');
	},
	slow: async () => {
		await sleep(200);
		return outbox.ack();
	},
	progress: async (event, call) => {
		const before = call.deadline;

		await sleep(5);
		call.progress();
		call.progress();
		if (process.env.OUTBOX_ATTEMPT === undefined &&
		    call.deadline <= before)
			return outbox.pause('the deadline did not move');
		return outbox.ack();
	},
	log: (event, call) => {
		call.log('warn', 'two "words"', { k: 'v' });
		return outbox.ack();
	},
	print: () => {
		console.log('{"type":"result","call":"1","outcome":"pause"}');
		return outbox.ack();
	},
	child: () => new Promise((resolve) => {
		const child = exec("cat; { echo '{}' >&3; } 2>/dev/null",
		    (error, stdout) => resolve(stdout === '' ? outbox.ack()
			: outbox.pause(`a child read ${stdout}`)));

		child.stdin.end();
	}),
};

for (const [name, fn] of Object.entries(all))
	outbox.handler(name, fn);
outbox.run({ maxInFlight: 4 });
