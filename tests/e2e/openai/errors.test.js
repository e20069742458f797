// What a server with keys and small queues says, by the classes of the npm openai client.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const as = (apiKey) => new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0, timeout: 60_000 });
const client = as('second-key');

test('a key that the server does not know is an AuthenticationError', async () => {
  for (const key of ['wrong', 'second-ke', 'second-key1', '#']) {
    const error = await as(key).models.list().then(
      () => null,
      (e) => e,
    );
    assert.ok(error instanceof OpenAI.AuthenticationError, `${key}: ${error}`);
    assert.equal(error.code, 'invalid_api_key');
  }
  assert.equal((await as('first-key').models.list()).data.length, 1);
  assert.equal((await fetch(`${url}/health`)).status, 200);
  assert.equal((await fetch(`${url}/tokenize`, { method: 'POST', body: '{"prompt":"x"}' })).status, 401);
});

test('full queues are a RateLimitError, and who was taken is answered', async () => {
  const model = (await client.models.list()).data[0].id;
  const results = await Promise.all(
    Array.from({ length: 12 }, () =>
      client.completions.create({ model, prompt: 'x', max_tokens: 150, ignore_eos: true }).then(
        (answer) => answer,
        (e) => e,
      ),
    ),
  );
  const refused = results.filter((r) => r instanceof OpenAI.RateLimitError);
  const answered = results.filter((r) => r?.usage?.completion_tokens === 150);
  assert.ok(refused.length > 0 && answered.length > 0);
  assert.equal(refused.length + answered.length, 12, `${results.find((r) => r instanceof Error)}`);
  assert.equal(refused[0].headers.get('retry-after'), '1');
});
