// What a server with keys and small queues says, by the classes of Anthropic's npm client.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const as = (keys) => new Anthropic({ baseURL: url, maxRetries: 0, timeout: 60_000, ...keys });
const hi = { model: 'default', max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] };

test('a key comes by itself or as a bearer', async () => {
  for (const keys of [{ apiKey: 'second-key' }, { authToken: 'first-key' }]) {
    assert.equal((await as(keys).messages.create(hi)).type, 'message');
    assert.equal((await as(keys).models.list()).data.length, 1);
  }
});

test('a key that the server does not know is an AuthenticationError', async () => {
  for (const keys of [{ apiKey: 'wrong' }, { authToken: 'second-ke' }, { apiKey: '#' }])
    for (const call of [() => as(keys).messages.create(hi), () => as(keys).messages.countTokens(hi), () => as(keys).models.list()]) {
      const error = await call().then(
        () => null,
        (e) => e,
      );
      assert.ok(error instanceof Anthropic.AuthenticationError, `${error}`);
      assert.equal(error.type, 'authentication_error');
      assert.doesNotMatch(error.message, /second|first/);
    }
});

test('full queues are a RateLimitError, and who was taken is answered', async () => {
  const client = as({ apiKey: 'second-key' });
  const results = await Promise.all(
    Array.from({ length: 12 }, () => client.messages.create({ ...hi, max_tokens: 150, ignore_eos: true }).catch((e) => e)),
  );
  const refused = results.filter((r) => r instanceof Anthropic.RateLimitError);
  const answered = results.filter((r) => r?.usage?.output_tokens === 150);
  assert.ok(refused.length > 0 && answered.length > 0);
  assert.equal(refused.length + answered.length, 12, `${results.find((r) => r instanceof Error)}`);
  assert.equal(refused[0].type, 'rate_limit_error');
  assert.equal(refused[0].headers.get('retry-after'), '1');
});

test('the client tries again by itself until there is room', async () => {
  const patient = as({ apiKey: 'second-key', maxRetries: 8 });
  const results = await Promise.all(Array.from({ length: 8 }, () => patient.messages.create({ ...hi, max_tokens: 50, ignore_eos: true })));
  for (const answer of results) assert.equal(answer.usage.output_tokens, 50);
});
