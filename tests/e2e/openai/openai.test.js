// The npm openai client against a running godwit at GODWIT_URL. Every test is something that a user of the client does.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import OpenAI from 'openai';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 60_000 });

const question = [
  { role: 'system', content: 'You explain words.' },
  { role: 'user', content: 'What is a hacker?' },
];
let model;
let contextLength;

before(async () => {
  const list = await client.models.list();
  model = list.data[0].id;
  contextLength = list.data[0].max_model_len;
});

async function rejects(promise, status, check = () => {}) {
  const error = await promise.then(
    () => assert.fail('the request was accepted'),
    (e) => e,
  );
  assert.ok(error instanceof OpenAI.APIError, `${error}`);
  assert.equal(error.status, status, `${error}`);
  assert.equal(typeof error.error.message, 'string');
  check(error);
}

async function metric(name) {
  const text = await (await fetch(`${url}/metrics`)).text();
  const line = text.split('\n').find((l) => l.startsWith(`${name} `));
  assert.ok(line, `no ${name} in /metrics`);
  return Number(line.split(' ')[1]);
}

test('the models are listed and found by name', async () => {
  const list = await client.models.list();
  assert.equal(list.data.length, 1);
  assert.equal(list.data[0].object, 'model');
  const one = await client.models.retrieve(model);
  assert.equal(one.id, model);
  await rejects(client.models.retrieve('no-such-model'), 404);
});

test('a completion gives text, a reason and usage', async () => {
  const answer = await client.completions.create({ model, prompt: 'A hacker is', max_tokens: 12, temperature: 0 });
  assert.equal(answer.object, 'text_completion');
  assert.match(answer.id, /^cmpl-/);
  assert.equal(answer.model, model);
  assert.ok(Math.abs(answer.created - Date.now() / 1000) < 120);
  assert.equal(answer.choices.length, 1);
  const [choice] = answer.choices;
  assert.ok(choice.text.length > 0);
  assert.ok(['length', 'stop'].includes(choice.finish_reason));
  assert.ok(answer.usage.prompt_tokens > 0);
  assert.ok(answer.usage.completion_tokens > 0 && answer.usage.completion_tokens <= 12);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

test('a streamed completion is the same text in pieces', async () => {
  const asked = { model, prompt: 'The origin of the term', max_tokens: 24, temperature: 0.8, seed: 7 };
  const whole = await client.completions.create(asked);
  const stream = await client.completions.create({ ...asked, stream: true });
  let text = '';
  let chunks = 0;
  let reason = null;
  for await (const chunk of stream) {
    chunks += 1;
    assert.equal(chunk.object, 'text_completion');
    text += chunk.choices[0].text;
    reason = chunk.choices[0].finish_reason ?? reason;
  }
  assert.equal(text, whole.choices[0].text);
  assert.equal(reason, whole.choices[0].finish_reason);
  assert.ok(chunks > 1, 'the answer came in one piece');
});

test('a chat gives one message of the assistant', async () => {
  const answer = await client.chat.completions.create({ model, messages: question, max_tokens: 16, temperature: 0 });
  assert.equal(answer.object, 'chat.completion');
  assert.match(answer.id, /^chatcmpl-/);
  const [choice] = answer.choices;
  assert.equal(choice.message.role, 'assistant');
  assert.equal(typeof choice.message.content, 'string');
  assert.ok(answer.usage.completion_tokens <= 16);
});

test('a streamed chat is the same text in pieces, with the usage last when asked for', async () => {
  const asked = { model, messages: question, max_tokens: 24, seed: 3, temperature: 0.7 };
  const whole = await client.chat.completions.create(asked);
  const stream = await client.chat.completions.create({
    ...asked,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = '';
  let role;
  let reason = null;
  let usage = null;
  const ids = new Set();
  for await (const chunk of stream) {
    assert.equal(chunk.object, 'chat.completion.chunk');
    assert.equal(usage, null, 'something came after the usage');
    ids.add(chunk.id);
    if (chunk.usage) {
      usage = chunk.usage;
      assert.equal(chunk.choices.length, 0);
      continue;
    }
    const [choice] = chunk.choices;
    role ??= choice.delta.role;
    text += choice.delta.content ?? '';
    reason = choice.finish_reason ?? reason;
  }
  assert.equal(role, 'assistant');
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(reason, whole.choices[0].finish_reason);
  assert.equal(ids.size, 1);
  assert.deepEqual(
    [usage.prompt_tokens, usage.completion_tokens],
    [whole.usage.prompt_tokens, whole.usage.completion_tokens],
  );
});

test('without stream_options no chunk has usage', async () => {
  const stream = await client.chat.completions.create({ model, messages: question, max_tokens: 4, stream: true });
  for await (const chunk of stream) assert.ok(chunk.usage == null);
});

test('max_tokens bounds the answer', async () => {
  const answer = await client.completions.create({ model, prompt: 'One two three', max_tokens: 3, temperature: 0 });
  assert.ok(answer.usage.completion_tokens <= 3);
  if (answer.usage.completion_tokens === 3) assert.equal(answer.choices[0].finish_reason, 'length');
  const chat = await client.chat.completions.create({ model, messages: question, max_completion_tokens: 2 });
  assert.ok(chat.usage.completion_tokens <= 2);
});

test('the answer ends before a stop string, streamed or not', async () => {
  const asked = { model, prompt: 'A hacker is', max_tokens: 40, temperature: 0, ignore_eos: true };
  const free = (await client.completions.create(asked)).choices[0].text;
  const stop = free.slice(8, 11);
  const expected = free.slice(0, free.indexOf(stop));
  const stopped = await client.completions.create({ ...asked, stop: [stop] });
  assert.equal(stopped.choices[0].text, expected);
  assert.equal(stopped.choices[0].finish_reason, 'stop');
  let text = '';
  for await (const chunk of await client.completions.create({ ...asked, stop, stream: true }))
    text += chunk.choices[0].text;
  assert.equal(text, expected);
});

test('the same seed gives the same text, also in a crowd', async () => {
  const asked = { model, prompt: 'Once upon a time', max_tokens: 20, temperature: 1, ignore_eos: true };
  const alone = (await client.completions.create({ ...asked, seed: 11 })).choices[0].text;
  const crowd = await Promise.all(
    [11, 12, 13, 14, 11, 15, 16, 17].map((seed) => client.completions.create({ ...asked, seed })),
  );
  const texts = crowd.map((answer) => answer.choices[0].text);
  assert.equal(texts[0], alone);
  assert.equal(texts[4], alone);
  assert.ok(new Set(texts).size > 4, 'other seeds give other texts');
});

test('a list of prompts gives a choice for each', async () => {
  const prompts = ['A bug is', 'A feature is', 'A kludge is'];
  const asked = { model, max_tokens: 8, temperature: 0 };
  const together = await client.completions.create({ ...asked, prompt: prompts });
  assert.equal(together.choices.length, 3);
  for (const [index, prompt] of prompts.entries()) {
    const alone = await client.completions.create({ ...asked, prompt });
    const choice = together.choices.find((c) => c.index === index);
    assert.equal(choice.text, alone.choices[0].text);
  }
});

test('an unknown model is 404', async () => {
  await rejects(client.completions.create({ model: 'no-such-model', prompt: 'x' }), 404, (e) =>
    assert.match(e.error.message, /no-such-model/),
  );
  await rejects(client.chat.completions.create({ model: 'no-such-model', messages: question }), 404);
});

test('a wrong parameter is 400 and is named', async () => {
  const wrong = [
    ['temperature', -1],
    ['top_p', 2],
    ['max_tokens', -5],
    ['max_tokens', 'many'],
    ['stop', 17],
  ];
  for (const [param, value] of wrong) {
    const body = { model, prompt: 'x', max_tokens: 1, [param]: value };
    await rejects(client.completions.create(body), 400, (e) => {
      assert.equal(e.param, param);
      assert.equal(e.type, 'invalid_request_error');
    });
  }
  await rejects(client.chat.completions.create({ model, messages: [] }), 400, (e) => assert.equal(e.param, 'messages'));
});

test('both priorities pass through the client, and a level that is not there is 400 with the known ones', async () => {
  const asked = { model, max_tokens: 4, temperature: 0, priority: -1, execution_priority: 'high' };
  const text = await client.completions.create({ ...asked, prompt: 'A hacker is' });
  assert.ok(text.usage.completion_tokens > 0);
  const plain = await client.completions.create({ model, max_tokens: 4, temperature: 0, prompt: 'A hacker is' });
  assert.equal(text.choices[0].text, plain.choices[0].text, 'priorities change when, never what');
  const chat = await client.chat.completions.create({ ...asked, messages: question });
  assert.ok(chat.usage.completion_tokens > 0);
  for (const wrong of ['no-such-level', 1])
    await rejects(client.completions.create({ ...asked, prompt: 'x', execution_priority: wrong }), 400, (e) => {
      assert.equal(e.param, 'execution_priority');
      if (wrong !== 1) assert.match(e.error.message, /'normal', 'high'/);
    });
  await rejects(client.chat.completions.create({ ...asked, messages: question, priority: 'first' }), 400, (e) =>
    assert.equal(e.param, 'priority'),
  );
});

test('as many tokens become text again as the context has, and no more', async () => {
  const detokenize = (count) =>
    fetch(`${url}/detokenize`, { method: 'POST', body: JSON.stringify({ tokens: Array(count).fill(5) }) });
  assert.equal((await detokenize(contextLength)).status, 200);
  const refused = await detokenize(contextLength + 1);
  assert.equal(refused.status, 400);
  assert.equal((await refused.json()).error.param, 'tokens');
});

test('a prompt longer than the context is 400 with both numbers', async () => {
  const long = 'word '.repeat(contextLength + 100);
  await rejects(client.completions.create({ model, prompt: long, max_tokens: 1 }), 400, (e) => {
    assert.equal(e.code, 'context_length_exceeded');
    const numbers = e.error.message.match(/\d+/g).map(Number);
    assert.ok(numbers.includes(contextLength), e.error.message);
    assert.ok(numbers.some((n) => n > contextLength), e.error.message);
  });
});

test('an aborted stream frees its request and others go on', async () => {
  const longest = Math.floor(contextLength / 2);
  let generated = longest;
  // On a busy machine the answer may be whole before its client has read the beginning.
  for (let round = 0; round < 20 && generated === longest; round += 1) {
    const before = await metric('godwit_generation_tokens_total');
    const stream = await client.chat.completions.create({
      model,
      messages: question,
      max_tokens: longest,
      ignore_eos: true,
      stream: true,
    });
    let seen = 0;
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) seen += 1;
      if (seen === 3) break; // the client aborts the request
    }
    assert.ok(stream.controller.signal.aborted);
    const deadline = Date.now() + 30_000;
    while ((await metric('godwit_requests_open')) > 0) {
      assert.ok(Date.now() < deadline, 'the request is still open after 30 s');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    generated = (await metric('godwit_generation_tokens_total')) - before;
  }
  assert.ok(generated >= 3 && generated < longest, `${generated} of ${longest} tokens were generated`);
  const answer = await client.completions.create({ model, prompt: 'Still there?', max_tokens: 2 });
  assert.ok(answer.usage.completion_tokens > 0);
});

test('sixteen streams at once all end', async () => {
  const streams = Array.from({ length: 16 }, async (_, index) => {
    const stream = await client.chat.completions.create({
      model,
      messages: [{ role: 'user', content: `Question ${index}` }],
      max_tokens: 16,
      stream: true,
    });
    let reason = null;
    for await (const chunk of stream) reason = chunk.choices[0]?.finish_reason ?? reason;
    return reason;
  });
  for (const reason of await Promise.all(streams)) assert.ok(['length', 'stop'].includes(reason));
});

test("a client's trace goes in with its request and comes back with the answer, streamed or not", async () => {
  const trace = '0af7651916cd43dd8448eb211c80319c';
  const headers = { traceparent: `00-${trace}-b7ad6b7169203331-01` };
  for (const stream of [false, true]) {
    const call = { model, prompt: 'A hacker is', max_tokens: 4, stream };
    const { data, response } = await client.completions.create(call, { headers }).withResponse();
    const [version, id, span, flags] = response.headers.get('traceparent').split('-');
    assert.deepEqual([version, id, flags], ['00', trace, '01']);
    assert.match(span, /^[0-9a-f]{16}$/);
    assert.notEqual(span, 'b7ad6b7169203331');
    if (stream) for await (const chunk of data) assert.ok(chunk.id);
  }
  const { response } = await client.completions.create({ model, prompt: 'A', max_tokens: 1 }).withResponse();
  const [, fresh] = response.headers.get('traceparent').split('-');
  assert.notEqual(fresh, trace);
});
