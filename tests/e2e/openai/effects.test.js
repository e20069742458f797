// What fields do to an answer, seen through the npm openai client. `fields.test.js` looks at their types and bounds.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import OpenAI from 'openai';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 60_000 });
let model;
before(async () => {
  model = (await client.models.list()).data[0].id;
});

const complete = (body) =>
  client.completions.create({ model, prompt: 'A hacker is', max_tokens: 24, ignore_eos: true, ...body });
const text = async (body) => (await complete(body)).choices[0].text;
const tokenize = async (body) =>
  (await (await fetch(`${url}/tokenize`, { method: 'POST', body: JSON.stringify(body) })).json()).tokens;

test('what narrows the draw to one token is greedy', async () => {
  const greedy = await text({ temperature: 0 });
  const hot = { temperature: 2, seed: 1 };
  assert.notEqual(await text(hot), greedy);
  assert.equal(await text({ ...hot, top_k: 1 }), greedy);
  assert.equal(await text({ ...hot, min_p: 1 }), greedy);
  assert.equal(await text({ ...hot, top_p: 1e-6 }), greedy);
});

test('penalties keep a token from coming again and again', async () => {
  const bias = { [(await tokenize({ prompt: 'x', add_special_tokens: false }))[0]]: 30 };
  const plain = { temperature: 0, logit_bias: bias, max_tokens: 40 };
  const count = async (more) => (await text({ ...plain, ...more })).split('x').length - 1;
  const free = await count({});
  assert.ok(free >= 30, `${free}`);
  assert.ok((await count({ frequency_penalty: 2 })) < free);
  assert.ok((await count({ repetition_penalty: 20 })) < free);
  const nearly = { temperature: 1, seed: 2 };
  assert.notEqual(await text({ ...nearly, presence_penalty: 2 }), await text(nearly));
});

test('an answer ends with a stop token, not before min_tokens, and beyond the end of the sequence if asked to', async () => {
  const ids = await tokenize({ prompt: await text({ temperature: 0 }), add_special_tokens: false });
  const stopped = await complete({ temperature: 0, stop_token_ids: [ids[5]] });
  assert.equal(stopped.choices[0].finish_reason, 'stop');
  assert.equal(stopped.choices[0].stop_reason, ids[5]);
  assert.ok(stopped.usage.completion_tokens <= 6);
  const later = await complete({ temperature: 0, stop_token_ids: [ids[5]], min_tokens: 12 });
  assert.ok(later.usage.completion_tokens >= 12);
  const asked = { messages: [{ role: 'user', content: 'Hi' }], model, max_tokens: 200, temperature: 0 };
  const free = await client.chat.completions.create(asked);
  const on = await client.chat.completions.create({ ...asked, ignore_eos: true });
  assert.equal(on.usage.completion_tokens, 200);
  if (free.choices[0].finish_reason === 'stop') assert.ok(free.usage.completion_tokens < 200);
});

test('a stop string stays in the text where that is asked for', async () => {
  const stop = (await text({ temperature: 0 })).slice(6, 9);
  const without = await text({ temperature: 0, stop });
  assert.ok(!without.includes(stop));
  assert.equal(await text({ temperature: 0, stop, include_stop_str_in_output: true }), without + stop);
});

test('KV is shared among equal salts only', async () => {
  const prompt = 'Shared words that fill several blocks of the cache, so that there is something to be found again. '.repeat(3);
  const cached = async (cache_salt) =>
    (await complete({ prompt, max_tokens: 1, cache_salt })).usage.prompt_tokens_details.cached_tokens;
  await cached('a');
  await cached('a'); // on whichever instance the first was not
  const again = await Promise.all([cached('a'), cached('a'), cached('a')]);
  assert.ok(again.some((tokens) => tokens > 0), `${again}`);
  assert.equal(await cached('b'), 0);
});

test('names come back, and what a template is asked for changes the prompt', async () => {
  assert.equal((await complete({ request_id: 'my-request.7', max_tokens: 1 })).id, 'cmpl-my-request.7');
  const messages = [{ role: 'user', content: 'Hi' }];
  const length = async (more) => (await tokenize({ messages, ...more })).length;
  assert.ok((await length({ add_generation_prompt: false })) < (await length({})));
  const answer = { role: 'assistant', content: 'It is' };
  const open = { add_generation_prompt: false, continue_final_message: true };
  assert.ok((await tokenize({ messages: [...messages, answer], ...open })).length < (await tokenize({ messages: [...messages, answer], add_generation_prompt: false })).length);
});

test('usage comes with every chunk where that is asked for', async () => {
  let chunks = 0;
  let last = 0;
  const stream = await complete({ stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } });
  for await (const chunk of stream) {
    assert.ok(chunk.usage.completion_tokens >= last);
    last = chunk.usage.completion_tokens;
    chunks += 1;
  }
  assert.equal(last, 24);
  assert.ok(chunks > 2);
});

test('an error in the middle of a stream is thrown where it is read', async () => {
  let seen = 0;
  let error = null;
  // Until the time is enough for some text on this machine; not so much at once that it is enough for all of it.
  for (const timeout of [0.15, 0.3, 0.6, 1.2, 2.4]) {
    try {
      for await (const chunk of await complete({ max_tokens: 1500, stream: true, timeout })) seen += chunk.choices.length;
    } catch (e) {
      error = e;
    }
    if (seen > 0) break;
  }
  assert.ok(seen > 0);
  assert.ok(error instanceof OpenAI.APIError, `${error}`);
  assert.equal(error.code, 'timeout');
});

test('a prediction changes nothing but the steps that an answer takes', async () => {
  const ask = (more) =>
    client.chat.completions.create({
      model, messages: [{ role: 'user', content: 'What is a hacker?' }], max_tokens: 120, temperature: 0,
      ignore_eos: true, ...more,
    });
  const plain = await ask({});
  assert.equal(plain.usage.completion_tokens_details, undefined);
  const said = plain.choices[0].message.content;
  const edited = said.slice(0, 40) + 'something else' + said.slice(60);
  for (const [content, least] of [[said, 60], [edited, 20], ['0123456789'.repeat(20), 0], ['', 0]])
    for (const stream of [false, true]) {
      let text = '';
      let usage;
      const answer = await ask({ stream, prediction: { type: 'content', content }, ...(stream ? { stream_options: { include_usage: true } } : {}) });
      if (stream)
        for await (const chunk of answer) {
          text += chunk.choices[0]?.delta?.content ?? '';
          usage = chunk.usage ?? usage;
        }
      else [text, usage] = [answer.choices[0].message.content, answer.usage];
      assert.equal(text, said);
      if (content === '') continue;
      const { accepted_prediction_tokens: accepted, rejected_prediction_tokens: rejected } = usage.completion_tokens_details;
      assert.ok(accepted >= least && accepted < 120, `${accepted} of "${content.slice(0, 60)}"`);
      assert.ok(rejected >= 0 && (content !== edited || rejected > 0), `${rejected}`);
    }
  const both = await ask({ n: 2, prediction: { type: 'content', content: said } });
  for (const { message } of both.choices) assert.equal(message.content, said);
  assert.ok(both.usage.completion_tokens_details.accepted_prediction_tokens >= 120);
});
