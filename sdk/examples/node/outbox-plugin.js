'use strict';
/*
 * outbox-plugin.js - handlers for outboxd, in Node 18 or newer.
 *
 * One file, no dependencies: copy it into the bundle.
 *
 *	const outbox = require('./outbox-plugin.js');
 *
 *	outbox.handler('hello', async (event, call) => {
 *		console.log('order', event.data.order);
 *		return outbox.ack();
 *	});
 *	outbox.run({ maxInFlight: 16 });
 *
 * The same program is a worker (protocol: worker) and an exec handler
 * (protocol: exec); outboxd says which by OUTBOX_PROTOCOL.
 *
 * A handler is called with an event and a call, and must return, or promise,
 * one of
 *
 *	ack()                          it is done
 *	retry(reason, { afterMs })     not now; afterMs: not earlier than that
 *	unavailable(reason)            not now, for the target is down: outboxd
 *	                               holds back what else would go there
 *	pause(reason)                  never by itself: a person must look
 *
 * Anything else that it returns, undefined too, is a retry: nothing is
 * acknowledged in doubt.  An exception is a retry with its message; the stack
 * goes to the log.  A handler may run more than once for one event: make the
 * effect idempotent by call.idempotencyKey.
 *
 * event: id, source, type (the contract), contractVersion, workspace, time
 * (RFC 3339, UTC), subject (undefined: none); attributes: all of them by
 * name, also such as traceparent; data: the body, parsed when first looked
 * at; dataText: its exact text (a whole number beyond 2^53 is exact there
 * only).
 *
 * call: handler, handlerVersion, subscriber; attempt (from 1), maxAttempts;
 * idempotencyKey: equal over all attempts; deadline, by performance.now();
 * remainingMs(); progress(): the deadline begins anew, until max_runtime is
 * used up; log(level, message, fields): a line in outboxd's log; signal: an
 * AbortSignal, aborted when outboxd cancels the call; cancelReason (deadline,
 * claim_lost, stop, operator).  After a cancel the handler's result still has
 * to come, and soon.
 *
 * Descriptors 1 and 2 are log lines; results go to descriptor 3, so a
 * console.log() does no harm.  A handler that never gives the event loop back
 * can neither be cancelled nor answer anything.
 */
const fs = require('fs');
const net = require('net');
const { performance } = require('perf_hooks');

const REASON_MAX = 1024;
const CODE_MAX = 64;
const RETRY_AFTER_MAX_MS = 7 * 24 * 3600 * 1000;
const LOG_MAX = 4096;
const FIELD_MAX = 1024;
const FIELDS_MAX = 16;
const LEVELS = ['debug', 'info', 'warn', 'error'];

const EX_USAGE = 64;
const EX_DATAERR = 65;
const EX_UNAVAILABLE = 69;
const EX_SOFTWARE = 70;
const EX_IOERR = 74;
const EX_TEMPFAIL = 75;
const EX_CONFIG = 78;

/* What a handler returns. */

class Result {
	constructor(outcome, reason, afterMs, code) {
		this.outcome = outcome;
		this.reason = reason;
		this.afterMs = afterMs;
		this.code = code;
	}

	/* What it says beside the outcome, fit for a frame. */
	members() {
		const said = {};
		const ms = Math.floor(Number(this.afterMs));

		if (Number.isFinite(ms))
			said.retry_after_ms =
			    Math.max(0, Math.min(ms, RETRY_AFTER_MAX_MS));
		if (this.reason != null)
			said.reason = clean(this.reason, REASON_MAX);
		if (this.code != null)
			said.code = clean(this.code, CODE_MAX);
		return said;
	}
}

function ack() {
	return new Result('ack');
}

function retry(reason, { afterMs, code } = {}) {
	return new Result('retry', reason, afterMs, code);
}

function unavailable(reason, { afterMs } = {}) {
	return new Result('retry', reason, afterMs, 'unavailable');
}

function pause(reason, { code } = {}) {
	return new Result('pause', reason, undefined, code);
}

/* What a handler is called with. */

class Event {
	#text;
	#data;
	#parsed;

	/* text: the body's exact text, or a function that gives it. */
	constructor(attributes, text, ...parsed) {
		this.attributes = attributes;
		this.id = attributes.id;
		this.source = attributes.source;
		this.type = attributes.type;
		this.contractVersion = attributes.contractversion;
		this.workspace = attributes.workspace;
		this.subject = attributes.subject;
		this.time = attributes.time;
		this.#text = text;
		this.#parsed = parsed.length > 0;
		[this.#data] = parsed;
	}

	get dataText() {
		if (typeof this.#text === 'function')
			this.#text = this.#text();
		return this.#text;
	}

	get data() {
		if (!this.#parsed) {
			this.#data = JSON.parse(this.dataText);
			this.#parsed = true;
		}
		return this.#data;
	}
}

class Call {
	#host;
	#abort = new AbortController();
	#started = performance.now();

	constructor(host, number, handler, timeoutMs) {
		this.#host = host;
		this.number = number;
		this.handler = handler;
		this.deadline = this.#started + timeoutMs;
		this.attempt = 1;
		this.maxAttempts = 1;
		this.idempotencyKey = '';
		this.handlerVersion = '';
		this.subscriber = '';
		this.cancelReason = undefined;
		this.answered = false;
	}

	get signal() {
		return this.#abort.signal;
	}

	get cancelled() {
		return this.#abort.signal.aborted;
	}

	remainingMs() {
		return Math.max(0, this.deadline - performance.now());
	}

	/* Says that work goes on.  An exec handler has no such thing. */
	progress() {
		const limits = this.#host.progress(this);

		if (limits !== undefined)
			this.deadline = Math.max(this.deadline,
			    Math.min(performance.now() + limits.deadlineMs,
				this.#started + limits.maxRuntimeMs));
	}

	log(level, message, fields = {}) {
		const plain = {};

		if (!LEVELS.includes(level))
			throw new RangeError(`no such level: ${level}`);
		for (const [k, v] of Object.entries(fields).slice(0, FIELDS_MAX))
			plain[clean(k, 64)] = clean(v, FIELD_MAX);
		this.#host.log(this, level, clean(message, LOG_MAX), plain);
	}

	cancel(reason) {
		this.cancelReason ??= reason;
		this.#abort.abort(new Error(`cancelled: ${reason}`));
	}
}

/* Registering and running. */

const handlers = new Map();

function handler(name, fn) {
	if (handlers.has(name))
		throw new Error(`two handlers named ${name}`);
	if (typeof fn !== 'function')
		throw new TypeError(`handler ${name} is no function`);
	handlers.set(name, fn);
}

/* Serves until outboxd says that it is over; the process ends then. */
function run({ maxInFlight = 16 } = {}) {
	const results = Number(process.env.OUTBOX_RESULT_FD ?? 3);

	if (process.env.OUTBOX_PROTOCOL === 'exec/1')
		runExec(results);
	else
		new Worker(results, Math.max(1, Math.floor(maxInFlight))).run();
}

function die(status, words) {
	process.stderr.write(`outbox-plugin: ${words}\n`);
	process.exit(status);
}

async function callHandler(fn, event, call) {
	let result;

	try {
		result = await fn(event, call);
	} catch (e) {
		console.error(e);
		return retry(e instanceof Error ? `${e.name}: ${e.message}` : e);
	}
	if (result instanceof Result)
		return result;
	return retry(`the handler returned ${typeof result}, ` +
	    'which is no result');
}

/* exec/1 */

const execHost = {
	progress() {
		return undefined;
	},
	log(call, level, message, fields) {
		console.error(level, message,
		    ...Object.entries(fields).map(([k, v]) => `${k}=${v}`));
	},
};

function execEvent(raw) {
	const wanted = Number(process.env.OUTBOX_INPUT_BYTES ?? raw.length);

	if (wanted !== raw.length)
		die(EX_TEMPFAIL, `${raw.length} bytes of input, not ${wanted}`);
	return splitEvent(decode(raw), 0);
}

function execCall(name) {
	const env = process.env;
	const call = new Call(execHost, '', name,
	    Number(env.OUTBOX_TIMEOUT_MS ?? 60000));

	call.attempt = Number(env.OUTBOX_ATTEMPT ?? 1);
	call.maxAttempts = Number(env.OUTBOX_MAX_ATTEMPTS ?? 1);
	call.idempotencyKey = env.OUTBOX_IDEMPOTENCY_KEY ?? '';
	call.handlerVersion = env.OUTBOX_HANDLER_VERSION ?? '';
	call.subscriber = env.OUTBOX_SUBSCRIBER ?? '';
	process.on('SIGTERM', () => call.cancel('deadline'));
	return call;
}

/* The status alone says enough, should the words be lost. */
function execFinish(results, result) {
	const said = result.members();

	if (result.outcome === 'ack')
		process.exit(0);
	try {
		if (Object.keys(said).length > 0)
			fs.writeSync(results, JSON.stringify(said) + '\n');
	} catch {
		console.error(result.outcome, said); /* run by hand */
	}
	if (result.outcome === 'pause')
		process.exit(EX_DATAERR);
	process.exit(result.code === 'unavailable' ? EX_UNAVAILABLE
						   : EX_TEMPFAIL);
}

async function runExec(results) {
	const name = process.env.OUTBOX_HANDLER ??
	    (handlers.size === 1 ? handlers.keys().next().value : '');
	const fn = handlers.get(name);
	const chunks = [];

	if (fn === undefined)
		die(EX_CONFIG, `there is no handler named "${name}"`);
	const call = execCall(name);
	for await (const chunk of process.stdin)
		chunks.push(chunk);
	const event = execEvent(Buffer.concat(chunks));
	/* a promise that nothing keeps must not end in status 0 */
	process.exitCode = EX_SOFTWARE;
	execFinish(results, await callHandler(fn, event, call));
}

/* worker/1 */

class Worker {
	#calls = new Map(); /* those that are owed a result */
	#limits = new Map();
	#maxInFlight;
	#out;
	#unsent = '';
	#pieces = []; /* of a frame that has not ended */
	#draining = false;

	constructor(results, maxInFlight) {
		this.#maxInFlight = maxInFlight;
		try {
			this.#out = new net.Socket({ fd: results,
				readable: false, writable: true });
		} catch {
			die(EX_USAGE, `descriptor ${results} is not open: ` +
			    'this is a plugin of outboxd; ' +
			    'try outboxctl plugin test');
		}
		this.#out.on('error', (e) => die(EX_IOERR,
		    `outboxd does not listen any more: ${e.message}`));
	}

	run() {
		if (handlers.size === 0)
			die(EX_USAGE, 'no handler is registered');
		process.stdin.on('data', (chunk) => this.#feed(chunk));
		process.stdin.on('end', () => this.#drain());
		process.stdin.on('error', () => this.#drain());
		process.on('SIGTERM', () => {
			for (const call of this.#calls.values())
				call.cancel('stop');
			this.#drain();
		});
	}

	/* What one turn of the event loop has to say goes out as one write. */
	#send(frame) {
		if (this.#unsent === '')
			process.nextTick(() => this.#flush());
		this.#unsent += JSON.stringify(frame) + '\n';
	}

	#flush(done) {
		const text = this.#unsent;

		this.#unsent = '';
		if (text !== '' || done !== undefined)
			this.#out.write(text, done);
	}

	#drain() {
		this.#draining = true;
		if (this.#calls.size === 0)
			this.#flush(() => process.exit(0));
	}

	#feed(chunk) {
		let from = 0;
		let to;

		while ((to = chunk.indexOf(10, from)) !== -1) {
			this.#pieces.push(chunk.subarray(from, to));
			const line = this.#pieces.length === 1
			    ? this.#pieces[0]
			    : Buffer.concat(this.#pieces);
			this.#pieces = [];
			from = to + 1;
			this.#onLine(line);
		}
		if (from < chunk.length)
			this.#pieces.push(chunk.subarray(from));
	}

	#onLine(raw) {
		try {
			const line = decode(raw);

			this.#onFrame(JSON.parse(line), line);
		} catch (e) {
			die(EX_SOFTWARE, 'outboxd sent a frame that cannot ' +
			    `be read: ${e.message}`);
		}
	}

	#onFrame(frame, line) {
		switch (frame.type) {
		case 'deliver':
			this.#deliver(frame, line);
			break;
		case 'cancel':
			this.#calls.get(frame.call)?.cancel(frame.reason);
			break;
		case 'ping':
			this.#send({ type: 'pong', id: frame.id });
			break;
		case 'drain':
			this.#drain();
			break;
		case 'hello':
			this.#hello(frame);
			break;
		}
	}

	#hello(frame) {
		const names = [];

		if (frame.protocol !== 'worker/1')
			die(EX_CONFIG, `outboxd speaks ${frame.protocol}, ` +
			    'not worker/1');
		for (const h of frame.handlers ?? []) {
			if (!handlers.has(h.name))
				die(EX_CONFIG, 'there is no handler named ' +
				    `"${h.name}"`);
			const deadlineMs = h.deadline_ms ?? 60000;
			this.#limits.set(h.name, { deadlineMs,
				maxRuntimeMs: h.max_runtime_ms ?? deadlineMs });
			names.push(h.name);
		}
		this.#send({ type: 'hello', protocol: 'worker/1',
			sdk: 'node/1' });
		this.#send({ type: 'ready', max_in_flight: Math.min(
			this.#maxInFlight,
			frame.limits?.max_in_flight ?? this.#maxInFlight),
			handlers: names });
	}

	async #deliver(frame, line) {
		const { data, ...attributes } = frame.event;
		const event = new Event(attributes,
		    () => dataText(line, 'event', 'data'), data);
		const call = new Call(this, frame.call, frame.handler,
		    frame.timeout_ms ?? 60000);
		const fn = handlers.get(frame.handler);

		call.attempt = frame.attempt ?? 1;
		call.maxAttempts = frame.max_attempts ?? 1;
		call.idempotencyKey = frame.idempotency_key ?? '';
		call.handlerVersion = frame.target?.handler_version ?? '';
		call.subscriber = frame.target?.subscriber ?? '';
		this.#calls.set(call.number, call);
		this.#answer(call, fn !== undefined
		    ? await callHandler(fn, event, call)
		    : retry(`there is no handler named "${frame.handler}"`));
	}

	#answer(call, result) {
		call.answered = true;
		this.#calls.delete(call.number);
		this.#send({ type: 'result', call: call.number,
			outcome: result.outcome, ...result.members() });
		if (this.#draining)
			this.#drain();
	}

	progress(call) {
		if (call.answered)
			return undefined;
		this.#send({ type: 'progress', call: call.number });
		return this.#limits.get(call.handler);
	}

	log(call, level, message, fields) {
		const frame = { type: 'log', level, message };

		if (!call.answered)
			frame.call = call.number;
		if (Object.keys(fields).length > 0)
			frame.fields = fields;
		this.#send(frame);
	}
}

/* JSON */

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(raw) {
	return utf8.decode(raw);
}

/* At most limit bytes of UTF-8, without NUL and lone surrogates. */
function clean(text, limit) {
	const raw = Buffer.from(String(text).replaceAll('\0', '\ufffd'));
	let end = Math.min(limit, raw.length);

	while (end < raw.length && end > 0 && (raw[end] & 0xc0) === 0x80)
		end--;
	return raw.toString('utf8', 0, end);
}

const TOKEN = /["{}[\]]/g;
const SCALAR = /[^,}\]\s]+/gy;
const BLANKS = /[ \t\r\n]*/gy;

function after(pattern, text, at) {
	pattern.lastIndex = at;
	if (!pattern.test(text))
		throw new SyntaxError(`not JSON at ${at}`);
	return pattern.lastIndex;
}

/* Behind the string that begins at text[at]. */
function stringEnd(text, at) {
	let end = at;
	let slashes;

	if (text[at] !== '"')
		throw new SyntaxError(`no string at ${at}`);
	do {
		end = text.indexOf('"', end + 1);
		if (end === -1)
			throw new SyntaxError('a string has no end');
		for (slashes = 0; text[end - 1 - slashes] === '\\'; slashes++)
			;
	} while (slashes % 2 === 1);
	return end + 1;
}

function valueEnd(text, at) {
	let depth = 0;

	if (text[at] === '"')
		return stringEnd(text, at);
	if (text[at] !== '{' && text[at] !== '[')
		return after(SCALAR, text, at);
	do {
		const end = after(TOKEN, text, at);

		at = text[end - 1] === '"' ? stringEnd(text, end - 1) : end;
		if (text[end - 1] === '{' || text[end - 1] === '[')
			depth++;
		else if (text[end - 1] === '}' || text[end - 1] === ']')
			depth--;
	} while (depth > 0);
	return at;
}

/*
 * Where the members of the object at text[at] are.  Looks no deeper, so the
 * body's depth and numbers do not matter.
 */
function members(text, at) {
	const found = new Map();

	at = after(BLANKS, text, at);
	if (text[at] !== '{')
		throw new SyntaxError('not an object');
	at = after(BLANKS, text, at + 1);
	while (text[at] !== '}') {
		const end = stringEnd(text, at);
		const key = JSON.parse(text.slice(at, end));

		at = after(BLANKS, text, end);
		if (text[at] !== ':')
			throw new SyntaxError(`no colon at ${at}`);
		const from = after(BLANKS, text, at + 1);
		const to = valueEnd(text, from);

		found.set(key, [from, to]);
		at = after(BLANKS, text, to);
		if (text[at] === ',')
			at = after(BLANKS, text, at + 1);
	}
	return found;
}

function dataText(text, ...path) {
	let at = 0;
	let to = text.length;

	for (const key of path) {
		const where = members(text, at).get(key);

		if (where === undefined)
			return 'null';
		[at, to] = where;
	}
	return text.slice(at, to);
}

/* An event of which only the attributes are parsed now. */
function splitEvent(text, at) {
	const attributes = {};
	let data = 'null';

	for (const [key, [from, to]] of members(text, at)) {
		if (key === 'data')
			data = text.slice(from, to);
		else
			attributes[key] = JSON.parse(text.slice(from, to));
	}
	return new Event(attributes, data);
}

module.exports = { handler, run, ack, retry, unavailable, pause, Event, Call,
	Result };
