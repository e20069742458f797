// Every field of the table, driven by Anthropic's npm client, streaming and not.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { refused, supported, table } from './fields.js';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0, timeout: 60_000 });
const messages = [{ role: 'user', content: 'Hi' }];
const ask = (body) => client.messages.create({ model: 'default', messages, max_tokens: 3, ...body });

async function refusal(promise, field) {
  const error = await promise.then(
    () => assert.fail('the request was accepted'),
    (e) => e,
  );
  assert.ok(error instanceof Anthropic.BadRequestError, `${error}`);
  assert.equal(error.type, 'invalid_request_error');
  assert.match(error.requestID, /^req-/);
  assert.ok(error.error.error.message.includes(field), error.message);
}

test('the table in the documentation is made of these fields', () => {
  const page = readFileSync(new URL('../../../docs/api.md', import.meta.url), 'utf8');
  const [, between] = page.split(/<!-- messages:[^>]*-->\n/);
  assert.equal(between?.trim(), table().trim(), 'run: node tests/e2e/anthropic/fields.js --table');
});

for (const one of supported.filter((f) => !f.own))
  test(`${one.field} is taken, and what is wrong with it is said`, async () => {
    const whole = await ask({ [one.field]: one.value });
    assert.equal(whole.type, 'message');
    assert.ok(whole.usage.output_tokens > 0);
    const types = [];
    for await (const event of await ask({ [one.field]: one.value, stream: true })) types.push(event.type);
    assert.equal(types.at(0), 'message_start');
    assert.equal(types.at(-1), 'message_stop');
    for (const wrong of one.wrong) await refusal(ask({ [one.field]: wrong }), one.field);
  });

for (const one of refused)
  test(`${one.field} is refused by name`, async () => {
    await refusal(ask({ [one.field]: one.value }), one.field);
    if (one.passes !== undefined) assert.equal((await ask({ [one.field]: one.passes })).type, 'message');
  });

test('a field that nobody knows is refused by name', async () => {
  await refusal(ask({ no_such_field: 1 }), 'no_such_field');
  await refusal(ask({ stop: ['x'] }), 'stop');
});
