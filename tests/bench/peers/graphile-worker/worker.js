'use strict';
/*
 * worker.js setup
 * worker.js drain AT_ONCE COUNT      prints jobs a second
 * worker.js stamp AT_ONCE FILE       until it is killed
 *
 * Tasks ack, ack2 .. ack5.  Draining uses its batches as its page on
 * performance has them: a local queue of 500, completions gathered, a pool of
 * 25; QUEUE_SIZE and BATCH_DELAY change them.  With
 * UNTIL=some more than COUNT wait, and it ends when COUNT are handled.
 * Stamping, where latency counts, uses neither.
 */
const fs = require('fs');
const { Pool } = require('pg');
const { run, runMigrations, Logger } = require('graphile-worker');

const [what, atOnce, last] = process.argv.slice(2);
const quiet = new Logger(() => (level, message) => {
	if (level === 'error')
		console.error(message);
});
const pgPool = new Pool({ max: 25 });
pgPool.on('error', () => {});
pgPool.on('connect', (client) => client.on('error', () => {}));

let handled = 0;
let began = 0n;
let allHandled;
const all = new Promise((resolve) => { allHandled = resolve; });

function count() {
	if (handled++ === 0)
		began = process.hrtime.bigint();
	if (handled === Number(last))
		allHandled();
}

let file;
function stamp(body) {
	const us = BigInt(Math.round((performance.timeOrigin + performance.now()) * 1000));
	fs.writeSync(file, `${body.id}\t${us}\n`);
}

async function work(task, worker) {
	const taskList = {};
	for (const name of ['ack', 'ack2', 'ack3', 'ack4', 'ack5'])
		taskList[name] = task;
	return run({
		pgPool,
		taskList,
		logger: quiet,
		noHandleSignals: true,
		preset: { worker: { concurrentJobs: Number(atOnce), ...worker } },
	});
}

async function drain() {
	const size = Number(process.env.QUEUE_SIZE || 500);
	const delay = Number(process.env.BATCH_DELAY || 0);
	const runner = await work(async () => { count(); }, {
		localQueue: { size },
		completeJobBatchDelay: delay,
		failJobBatchDelay: delay,
	});
	await all;
	while (process.env.UNTIL !== 'some') {
		const { rows } = await pgPool.query('SELECT EXISTS (SELECT FROM '
			+ 'graphile_worker._private_jobs) AS some');
		if (!rows[0].some)
			break;
		await new Promise((resolve) => setTimeout(resolve, 5));
	}
	const seconds = Number(process.hrtime.bigint() - began) / 1e9;
	console.log(Math.round(handled / seconds));
	await runner.stop();
	await pgPool.end();
}

async function main() {
	if (what === 'setup') {
		await runMigrations({ pgPool, logger: quiet });
		await pgPool.end();
	} else if (what === 'drain') {
		await drain();
	} else {
		file = fs.openSync(last, 'a');
		await work(async (body) => stamp(body), {});
	}
}

main().catch((e) => { console.error(e); process.exit(1); });
