// What a server that cannot serve yet says, by the classes of the npm openai client.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 60_000 });

test('without an instance every request is a 503 of the InternalServerError class', async () => {
  const model = (await client.models.list()).data[0].id; // what is served is known
  const messages = [{ role: 'user', content: 'x' }];
  const calls = [
    () => client.completions.create({ model, prompt: 'x' }),
    () => client.completions.create({ model, prompt: 'x', stream: true }),
    () => client.chat.completions.create({ model, messages }),
    () => client.chat.completions.create({ model, messages, stream: true }),
  ];
  for (const call of calls) {
    const error = await call().then(
      () => null,
      (e) => e,
    );
    assert.ok(error instanceof OpenAI.InternalServerError, `${error}`);
    assert.equal(error.status, 503);
    assert.equal(error.code, 'unavailable');
    assert.equal(error.headers.get('retry-after'), '1');
  }
});

test('the client tries again by itself, as often as it was told', async () => {
  const patient = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 1 });
  const model = (await patient.models.list()).data[0].id;
  const began = Date.now();
  await assert.rejects(patient.completions.create({ model, prompt: 'x' }), OpenAI.InternalServerError);
  assert.ok(Date.now() - began >= 900, 'it waits for as long as Retry-After says');
});
