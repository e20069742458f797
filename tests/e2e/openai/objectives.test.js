// How long clients give their answers, seen through the npm openai client. The server refuses early.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 60_000 });
const prompt = 'A hacker is a person who enjoys the details of programmable systems. '.repeat(4);
const ask = (headers, more) =>
  client.completions.create({ model: 'default', prompt, max_tokens: 8, ignore_eos: true, temperature: 0, ...more }, { headers });
const metric = async (name) => {
  const page = await (await fetch(`${url}/metrics`)).text();
  const line = page.split('\n').find((one) => one.startsWith(`${name} `));
  assert.ok(line, name);
  return Number(line.slice(name.length + 1));
};

test('before anything has run nothing is out of reach', async () => {
  await ask({ 'x-slo-ttft-ms': '0.001' });
});

test('what no instance is expected to do is a 429 at once', async () => {
  for (let i = 0; i < 4; ++i) await ask({}, { prompt: `${i} ${prompt}` }); // both instances know their pace
  for (const name of ['x-slo-ttft-ms', 'x-llm-d-slo-ttft-ms', 'x-slo-tpot-ms', 'x-llm-d-slo-tpot-ms'])
    await assert.rejects(ask({ [name]: '0.001' }), (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError, name);
      assert.equal(error.code, 'objectives_not_met');
      assert.match(error.message, /No instance is expected to meet the request's objectives with a margin of 10 %/);
      assert.equal(error.headers.get('retry-after'), '1');
      return true;
    });
  await assert.rejects(ask({ 'x-slo-ttft-ms': '0.001' }, { stream: true }), { status: 429, code: 'objectives_not_met' });
  assert.equal(await metric('godwit_requests_total{outcome="rejected",execution_priority="normal"}'), 5);
});

test('what they can do is done, and changes no answer', async () => {
  const calm = await ask({});
  const hurried = await ask({ 'x-slo-ttft-ms': '60000', 'x-slo-tpot-ms': '60000' });
  assert.equal(hurried.choices[0].text, calm.choices[0].text);
  assert.ok((await metric('godwit_ttft_over_expected_count')) > 0);
});

test('who goes before others is not refused', async () => {
  await ask({ 'x-slo-ttft-ms': '0.001' }, { priority: -1 });
});

test('what is no time is a 400', async () => {
  for (const wrong of ['soon', '0', '-1', '1e9'])
    await assert.rejects(ask({ 'x-slo-ttft-ms': wrong }), { status: 400 });
});
