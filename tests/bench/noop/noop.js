#!/usr/bin/env node
'use strict';
/* noop - acknowledges, and nothing else. */
const { existsSync } = require('fs');

const here = `${__dirname}/outbox-plugin.js`;
const outbox = require(existsSync(here) ? here
	: '../../../sdk/node/outbox-plugin.js');

outbox.handler('ack', () => outbox.ack());
outbox.run({ maxInFlight: 1024 });
