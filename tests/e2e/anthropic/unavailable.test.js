// What a server that cannot serve yet says, by the classes of Anthropic's npm client.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const hi = { model: 'default', max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] };

test('without an instance a message is a 503 that says overloaded, which the client tries again', async () => {
  for (const stream of [false, true]) {
    const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 1 });
    const began = Date.now();
    const error = await client.messages.create({ ...hi, stream }).then(
      () => null,
      (e) => e,
    );
    assert.ok(error instanceof Anthropic.APIError, `${error}`);
    assert.equal(error.status, 503);
    assert.equal(error.type, 'overloaded_error');
    assert.ok(Date.now() - began >= 900, 'it waits for as long as Retry-After says');
  }
});

test('what is served is known, and tokens are counted', async () => {
  const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
  assert.equal((await client.models.list()).data[0].id, 'default');
  assert.ok((await client.messages.countTokens({ model: 'default', messages: hi.messages })).input_tokens > 0);
});
