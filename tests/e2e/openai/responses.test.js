// POST /v1/responses through the npm openai client and its own helpers. Tools and what is thought are in tools.test.js and
// reasoning.test.js, whose servers have templates for them; each field is in fields.test.js.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import OpenAI from 'openai';
import { makeParseableTextFormat } from 'openai/lib/parser';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 60_000 });
const input = 'What is a hacker?';
let model;
let contextLength;
before(async () => {
  const list = await client.models.list();
  model = list.data[0].id;
  contextLength = list.data[0].max_model_len;
});
const ask = (body) => client.responses.create({ model, input, max_output_tokens: 24, temperature: 0.7, seed: 3, ...body });

const schema = {
  type: 'object',
  properties: { city: { enum: ['Paris', 'Rome'] }, days: { type: 'integer', minimum: 1, maximum: 9 } },
  required: ['city', 'days'],
  additionalProperties: false,
};
const format = { type: 'json_schema', name: 'trip', strict: true, schema };
function check(trip) {
  assert.ok(['Paris', 'Rome'].includes(trip.city) && trip.days >= 1 && trip.days <= 9, JSON.stringify(trip));
}

async function rejects(promise, status, param) {
  const error = await promise.then(
    () => assert.fail('the request was accepted'),
    (e) => e,
  );
  assert.ok(error instanceof OpenAI.APIError, `${error}`);
  assert.equal(error.status, status, `${error}`);
  assert.equal(error.param, param, `${error}`);
  return error;
}

test('a response says what a chat says, and repeats what it was asked with', async () => {
  const answer = await ask({ instructions: 'You explain words.', metadata: { a: 'b' }, user: 'me', top_p: 0.9 });
  const chat = await client.chat.completions.create({
    model, max_tokens: 24, temperature: 0.7, top_p: 0.9, seed: 3,
    messages: [{ role: 'system', content: 'You explain words.' }, { role: 'user', content: input }],
  });
  assert.equal(answer.output_text, chat.choices[0].message.content);
  assert.match(answer.id, /^resp_/);
  assert.equal(answer.object, 'response');
  assert.equal(answer.model, model);
  assert.ok(Math.abs(answer.created_at - Date.now() / 1000) < 120);
  assert.equal(answer.error, null);
  if (chat.choices[0].finish_reason === 'length') {
    assert.equal(answer.status, 'incomplete');
    assert.equal(answer.incomplete_details.reason, 'max_output_tokens');
  } else assert.equal(answer.status, 'completed');
  const [message] = answer.output;
  assert.equal(message.type, 'message');
  assert.equal(message.role, 'assistant');
  assert.match(message.id, /^msg_/);
  assert.deepEqual(message.content[0].annotations, []);
  const { usage } = answer;
  assert.equal(usage.input_tokens, chat.usage.prompt_tokens);
  assert.equal(usage.output_tokens, chat.usage.completion_tokens);
  assert.equal(usage.total_tokens, usage.input_tokens + usage.output_tokens);
  assert.equal(usage.output_tokens_details.reasoning_tokens, 0);
  assert.ok(usage.input_tokens_details.cached_tokens >= 0);
  assert.equal(answer.instructions, 'You explain words.');
  assert.deepEqual(answer.metadata, { a: 'b' });
  assert.equal(answer.user, 'me');
  assert.equal(answer.temperature, 0.7);
  assert.equal(answer.top_p, 0.9);
  assert.equal(answer.max_output_tokens, 24);
  assert.equal(answer.parallel_tool_calls, true);
  assert.equal(answer.tool_choice, 'auto');
  assert.deepEqual(answer.tools, []);
  assert.equal(answer.text.format.type, 'text');
  assert.equal(answer.store, false);
});

test('a stream tells each item from its beginning to its end, and the response at last', async () => {
  const whole = await ask({});
  const events = [];
  for await (const event of await ask({ stream: true })) events.push(event);
  events.forEach((event, i) => assert.equal(event.sequence_number, i));
  const types = events.map((e) => e.type);
  assert.deepEqual(types.slice(0, 4), [
    'response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added',
  ]);
  assert.deepEqual(types.slice(-4), [
    'response.output_text.done', 'response.content_part.done', 'response.output_item.done', `response.${whole.status}`,
  ]);
  const deltas = events.filter((e) => e.type === 'response.output_text.delta');
  assert.ok(deltas.length > 1, 'the answer came in one piece');
  assert.equal(deltas.map((e) => e.delta).join(''), whole.output_text);
  assert.equal(types.length, 8 + deltas.length);
  const { response } = events.at(-1);
  assert.equal(events[0].response.id, response.id);
  assert.equal(events[0].response.status, 'in_progress');
  assert.equal(response.output[0].content[0].text, whole.output_text);
  assert.deepEqual(response.usage.output_tokens, whole.usage.output_tokens);
  assert.equal(new Set(events.filter((e) => e.item_id).map((e) => e.item_id)).size, 1);
});

test('its events have names, and no [DONE] follows', async () => {
  const answer = await fetch(`${url}/v1/responses`, {
    method: 'POST',
    body: JSON.stringify({ model, input, max_output_tokens: 2, stream: true }),
  });
  assert.match(answer.headers.get('content-type'), /^text\/event-stream/);
  assert.match(answer.headers.get('x-request-id'), /^resp_/);
  const events = (await answer.text()).trim().split('\n\n');
  for (const event of events) {
    const [name, data] = event.split('\n');
    assert.equal(name, `event: ${JSON.parse(data.slice('data: '.length)).type}`);
  }
});

test("the client's own helper collects a stream", async () => {
  const stream = client.responses.stream({ model, input, max_output_tokens: 300, temperature: 1, seed: 2, text: { format } });
  let snapshot = '';
  stream.on('response.output_text.delta', (event) => (snapshot = event.snapshot));
  const answer = await stream.finalResponse();
  assert.equal(answer.status, 'completed');
  assert.equal(answer.output[0].content[0].text, snapshot);
  check(JSON.parse(snapshot));
});

test("the client's own helper parses what a schema made", async () => {
  for (const temperature of [0, 1, 2]) {
    const answer = await client.responses.parse({
      model, input, max_output_tokens: 300, temperature, seed: 5,
      text: { format: makeParseableTextFormat(format, (text) => JSON.parse(text)) },
    });
    assert.equal(answer.status, 'completed');
    check(answer.output_parsed);
    assert.equal(answer.text.format.name, 'trip');
  }
});

test('a conversation is sent back as it was answered', async () => {
  const first = await ask({ max_output_tokens: 8 });
  const conversation = [{ role: 'user', content: input }, ...first.output, { role: 'user', content: 'Go on.' }];
  const second = await ask({ input: conversation });
  const chat = await client.chat.completions.create({
    model, max_tokens: 24, temperature: 0.7, seed: 3,
    messages: [
      { role: 'user', content: input },
      { role: 'assistant', content: first.output_text },
      { role: 'user', content: 'Go on.' },
    ],
  });
  assert.equal(second.output_text, chat.choices[0].message.content);
  assert.equal(second.usage.input_tokens, chat.usage.prompt_tokens);
});

test('log-probabilities come with the text, and in a stream with its pieces', async () => {
  const asked = { include: ['message.output_text.logprobs'], top_logprobs: 2, ignore_eos: true, max_output_tokens: 10 };
  const { logprobs } = (await ask(asked)).output[0].content[0];
  assert.equal(logprobs.length, 10);
  for (const one of logprobs) {
    assert.ok(one.logprob <= 0 && Array.isArray(one.bytes));
    assert.equal(one.top_logprobs.length, 2);
  }
  const told = [];
  for await (const event of await ask({ ...asked, stream: true }))
    if (event.type === 'response.output_text.delta') told.push(...event.logprobs);
  assert.deepEqual(told, logprobs);
  assert.deepEqual((await ask({})).output[0].content[0].logprobs, []);
});

test('what is wrong or not supported is 400 by its name', async () => {
  await rejects(ask({ model: 'no-such-model' }), 404, 'model');
  await rejects(ask({ input: undefined }), 400, 'input');
  await rejects(ask({ input: 'word '.repeat(contextLength + 100) }), 400, 'input');
  await rejects(ask({ max_output_tokens: contextLength + 1 }), 400, 'max_output_tokens');
  const refused = [
    [{ tools: [{ type: 'web_search' }] }, 'tools[0].type'],
    [{ tools: [{ type: 'file_search', vector_store_ids: ['x'] }] }, 'tools[0].type'],
    [{ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] }, 'input[0].content[0].type'],
    [{ input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'x' }] }] }, 'input[0].content[0].type'],
    [{ input: [{ type: 'item_reference', id: 'msg_1' }] }, 'input[0].type'],
    [{ previous_response_id: 'resp_1' }, 'previous_response_id'],
    [{ include: ['web_search_call.results'] }, 'include[0]'],
  ];
  for (const [body, param] of refused)
    for (const stream of [false, true])
      assert.equal((await rejects(ask({ ...body, stream }), 400, param)).code, 'unsupported_parameter');
});

test('no answer is stored', async () => {
  const { id } = await ask({ max_output_tokens: 1, store: true });
  const calls = [client.responses.retrieve(id), client.responses.delete(id), client.responses.cancel(id), client.responses.inputItems.list(id)];
  for (const error of await Promise.all(calls.map((call) => rejects(Promise.resolve(call), 404, null)))) {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.match(error.message, /stores no responses/);
  }
  const counted = await client.responses.inputTokens.count({ model, input }).then(() => null, (e) => e);
  assert.equal(counted.code, 'unsupported_endpoint');
});

test('one whose time is over is an error, and in a stream a failed response', async () => {
  const late = { max_output_tokens: 400, ignore_eos: true, timeout: 0.001 };
  await rejects(ask(late), 504, 'timeout');
  const events = [];
  // A heartbeat has the stream begin with the admission.
  const stream = await ask({ ...late, stream: true, stream_options: { heartbeat_interval: 5 } }).catch((error) => error);
  if (stream instanceof OpenAI.APIError) return assert.equal(stream.status, 504); // it was over before that
  for await (const event of stream) events.push(event);
  assert.deepEqual(events.slice(-2).map((e) => e.type), ['error', 'response.failed']);
  assert.equal(events.at(-2).code, 'timeout');
  const { response } = events.at(-1);
  assert.equal(response.status, 'failed');
  assert.equal(response.error.code, 'server_error');
});

test('an aborted stream frees its request', async () => {
  const open = async () => {
    const text = await (await fetch(`${url}/metrics`)).text();
    return Number(text.split('\n').find((l) => l.startsWith('godwit_requests_open ')).split(' ')[1]);
  };
  const stream = await ask({ stream: true, ignore_eos: true, max_output_tokens: Math.floor(contextLength / 2) });
  for await (const event of stream) if (event.type === 'response.output_text.delta') break;
  assert.ok(stream.controller.signal.aborted);
  const deadline = Date.now() + 30_000;
  while ((await open()) > 0) {
    assert.ok(Date.now() < deadline, 'the request is still open after 30 s');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});
