'use strict';
/*
 * worker.js setup
 * worker.js drain AT_ONCE COUNT QUEUES  prints jobs a second
 * worker.js stamp AT_ONCE FILE          until it is killed
 *
 * Queues ack, ack2 .. ack5.  Draining fetches and completes in batches of
 * AT_ONCE, FETCHERS (4) at a time: work() would sleep between two batches.
 * Stamping uses work() at its shortest interval, half a second.
 */
const fs = require('fs');
const PgBoss = require('pg-boss');

const [what, atOnce, last, queues] = process.argv.slice(2);
const names = ['ack', 'ack2', 'ack3', 'ack4', 'ack5'];
const boss = new PgBoss({
	host: process.env.PGHOST,
	user: process.env.PGUSER,
	database: process.env.PGDATABASE,
	max: 12,
	supervise: what === 'stamp',
	schedule: false,
});
boss.on('error', (e) => { console.error(e); });

async function drain() {
	const batchSize = Number(atOnce);
	let done = 0;
	const began = process.hrtime.bigint();
	async function fetcher(n) {
		const name = names[n % Number(queues)];
		while (done < Number(last)) {
			const jobs = await boss.fetch(name, { batchSize });
			if (jobs.length === 0) {
				await new Promise((resolve) => setTimeout(resolve, 5));
				continue;
			}
			await boss.complete(name, jobs.map((job) => job.id));
			done += jobs.length;
		}
	}
	const fetchers = [];
	for (let n = 0; n < Math.max(Number(process.env.FETCHERS || 4), Number(queues)); n++)
		fetchers.push(fetcher(n));
	await Promise.all(fetchers);
	const seconds = Number(process.hrtime.bigint() - began) / 1e9;
	console.log(Math.round(done / seconds));
}

async function main() {
	await boss.start();
	if (what === 'setup') {
		for (const name of names)
			await boss.createQueue(name);
	} else if (what === 'drain') {
		await drain();
	} else {
		const file = fs.openSync(last, 'a');
		await boss.work('ack', { batchSize: Number(atOnce), pollingIntervalSeconds: 0.5 },
			async (jobs) => {
				for (const job of jobs) {
					const us = Math.round((performance.timeOrigin + performance.now()) * 1000);
					fs.writeSync(file, `${job.data.id}\t${us}\n`);
				}
			});
		return;
	}
	await boss.stop({ graceful: false });
}

main().then(() => { if (what !== 'stamp') process.exit(0); },
	(e) => { console.error(e); process.exit(1); });
