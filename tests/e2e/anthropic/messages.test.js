// POST /v1/messages through Anthropic's npm client and its own helpers. Tools and what is thought are in tools.test.js and
// reasoning.test.js, whose servers have templates for them; each field is in fields.test.js.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { jsonSchemaOutputFormat } from '@anthropic-ai/sdk/helpers/json-schema';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0, timeout: 60_000 });
const messages = [{ role: 'user', content: 'What is a hacker?' }];
let contextLength;
before(async () => {
  contextLength = (await client.models.retrieve('default')).max_input_tokens;
});
const ask = (body) => client.messages.create({ model: 'default', messages, max_tokens: 24, temperature: 0.7, seed: 3, ...body });
const text = (message) => message.content.map((block) => block.text ?? '').join('');

async function chat(body) {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ messages, max_tokens: 24, temperature: 0.7, seed: 3, ...body }),
  });
  return answer.json();
}

async function rejects(promise, type, status) {
  const error = await promise.then(
    () => assert.fail('the request was accepted'),
    (e) => e,
  );
  assert.ok(error instanceof Anthropic.APIError, `${error}`);
  assert.equal(error.status, status, `${error}`);
  assert.equal(error.type, type, `${error}`);
  return error;
}

test('a message says what a chat says', async () => {
  const answer = await ask({ system: 'You explain words.' });
  const other = await chat({ messages: [{ role: 'system', content: 'You explain words.' }, ...messages] });
  assert.equal(text(answer), other.choices[0].message.content);
  assert.match(answer.id, /^msg_/);
  assert.equal(answer._request_id, answer.id);
  assert.equal(answer.type, 'message');
  assert.equal(answer.role, 'assistant');
  assert.equal(answer.model, 'default');
  assert.equal(answer.content[0].type, 'text');
  assert.equal(answer.stop_reason, other.choices[0].finish_reason === 'length' ? 'max_tokens' : 'end_turn');
  assert.equal(answer.stop_sequence, null);
  const { usage } = answer;
  assert.equal(usage.input_tokens + usage.cache_read_input_tokens, other.usage.prompt_tokens);
  assert.equal(usage.cache_creation_input_tokens, 0);
  assert.equal(usage.output_tokens, other.usage.completion_tokens);
});

test('a stream tells it from block to block', async () => {
  const whole = await ask({});
  const events = [];
  for await (const event of await ask({ stream: true })) events.push(event);
  const types = events.map((e) => e.type);
  assert.deepEqual(types.slice(0, 2), ['message_start', 'content_block_start']); // the client keeps pings to itself
  assert.deepEqual(types.slice(-3), ['content_block_stop', 'message_delta', 'message_stop']);
  const deltas = events.filter((e) => e.type === 'content_block_delta');
  assert.ok(deltas.length > 1, 'the answer came in one piece');
  assert.equal(types.length, deltas.length + 5);
  assert.equal(deltas.map((e) => e.delta.text).join(''), text(whole));
  assert.equal(events[0].message.stop_reason, null);
  assert.equal(events.at(-2).delta.stop_reason, whole.stop_reason);
  assert.equal(events.at(-2).usage.output_tokens, whole.usage.output_tokens);
});

test('its events have names, and nothing follows the last one', async () => {
  const answer = await fetch(`${url}/v1/messages?beta=true`, {
    method: 'POST',
    headers: { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'claude-code-20250219,context-management-2025-06-27' },
    body: JSON.stringify({ messages, max_tokens: 2, stream: true }),
  });
  assert.match(answer.headers.get('content-type'), /^text\/event-stream/);
  assert.match(answer.headers.get('request-id'), /^msg_/);
  const events = (await answer.text()).trim().split('\n\n').map((event) => event.split('\n'));
  for (const [name, data] of events) assert.equal(name, `event: ${JSON.parse(data.slice('data: '.length)).type}`);
  assert.equal(events[1][0], 'event: ping');
  assert.equal(events.at(-1)[0], 'event: message_stop');
});

test("the client's own helper collects a stream", async () => {
  const stream = client.messages.stream({ model: 'default', messages, max_tokens: 24, temperature: 0.7, seed: 3 });
  let said = '';
  stream.on('text', (delta) => (said += delta));
  const answer = await stream.finalMessage();
  const whole = await ask({});
  assert.equal(said, text(whole));
  assert.equal(await stream.finalText(), said);
  assert.equal(stream.request_id, answer.id);
  assert.equal(answer.stop_reason, whole.stop_reason);
  assert.equal(answer.usage.output_tokens, whole.usage.output_tokens);
  const inputs = ({ usage }) => usage.input_tokens + usage.cache_read_input_tokens;
  assert.equal(inputs(answer), inputs(whole));
});

test("the client's own helper parses what a schema made", async () => {
  const schema = {
    type: 'object',
    properties: { city: { type: 'string', enum: ['Paris', 'Rome'] }, sunny: { type: 'boolean' } },
    required: ['city', 'sunny'],
    additionalProperties: false,
  };
  for (const temperature of [0, 1]) {
    const answer = await client.messages.parse({
      model: 'default', messages, max_tokens: 300, temperature, seed: 5,
      output_config: { format: jsonSchemaOutputFormat(schema) },
    });
    assert.equal(answer.stop_reason, 'end_turn');
    assert.ok(['Paris', 'Rome'].includes(answer.parsed_output.city));
    assert.equal(typeof answer.parsed_output.sunny, 'boolean');
  }
});

test('a stop sequence ends it and is told', async () => {
  const whole = text(await ask({}));
  const stop = whole.slice(5, 7);
  const answer = await ask({ stop_sequences: [stop, 'never said'] });
  assert.equal(answer.stop_reason, 'stop_sequence');
  assert.equal(answer.stop_sequence, stop);
  assert.equal(text(answer), whole.slice(0, whole.indexOf(stop)));
});

test("it goes on from the assistant's last words", async () => {
  const begun = [...messages, { role: 'assistant', content: 'A hacker is a' }];
  const answer = await ask({ messages: begun, temperature: 0 });
  const other = await chat({ messages: begun, temperature: 0, add_generation_prompt: false, continue_final_message: true });
  assert.equal(text(answer), other.choices[0].message.content);
});

test('a conversation is sent back as it was answered', async () => {
  const first = await ask({ max_tokens: 8 });
  const turns = (content) => [...messages, { role: 'assistant', content }, { role: 'user', content: 'Go on.' }];
  const second = await ask({ messages: turns(first.content) });
  const other = await chat({ messages: turns(text(first)) });
  assert.equal(text(second), other.choices[0].message.content);
});

test('tokens are counted as they are answered', async () => {
  const { input_tokens } = await client.messages.countTokens({ model: 'default', messages, system: 'Be brief.' });
  const { usage } = await ask({ system: 'Be brief.', max_tokens: 1 });
  assert.equal(input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
  const long = await client.messages.countTokens({ model: 'default', messages: [{ role: 'user', content: 'word '.repeat(contextLength) }] });
  assert.ok(long.input_tokens > contextLength);
  const beta = await client.beta.messages.countTokens({ model: 'default', messages, context_management: { edits: [] } });
  assert.equal(beta.context_management.original_input_tokens, beta.input_tokens);
  await rejects(client.messages.countTokens({ model: 'default', messages: [] }), 'invalid_request_error', 400);
});

test('the models are a page', async () => {
  const all = [];
  for await (const model of client.models.list()) all.push(model);
  assert.deepEqual(all.map((m) => [m.type, m.id, m.display_name]), [['model', 'default', 'default']]);
  assert.ok(Math.abs(Date.parse(all[0].created_at) - Date.now()) < 3_600_000, all[0].created_at);
  await rejects(client.models.retrieve('claude-opus-4-8'), 'not_found_error', 404);
});

test('the beta of the client is served the same', async () => {
  const answer = await client.beta.messages.create({
    model: 'default', messages, max_tokens: 4, betas: ['context-management-2025-06-27'],
    context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] },
  });
  assert.deepEqual(answer.context_management, { applied_edits: [] });
});

test('what Claude Code sends is taken', async () => {
  const answer = await client.beta.messages.create({
    model: 'default',
    max_tokens: 64000,
    ignore_eos: true,
    stream: false,
    system: [
      { type: 'text', text: `x-anthropic-billing-header: cc_version=2; cch=${Math.random()};` },
      { type: 'text', text: 'You help.', cache_control: { type: 'ephemeral' } },
    ],
    messages: [
      { role: 'user', content: [{ type: 'text', text: '<system-reminder>\nx\n</system-reminder>' }, { type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }] },
      { role: 'system', content: 'Available agents: none.' },
    ],
    metadata: { user_id: '{"device_id":"x","account_uuid":"","session_id":"y"}' },
    thinking: { type: 'adaptive' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
    output_config: { effort: 'high' },
    betas: ['claude-code-20250219'],
  });
  // It names the most that any model may say; the context ends it.
  assert.equal(answer.stop_reason, 'model_context_window_exceeded');
  const { usage } = answer;
  assert.equal(usage.input_tokens + usage.cache_read_input_tokens + usage.output_tokens, contextLength);
});

test('what is wrong or not supported is said by the class of its error', async () => {
  await rejects(ask({ model: 'claude-opus-4-8' }), 'not_found_error', 404);
  const long = await rejects(ask({ messages: [{ role: 'user', content: 'word '.repeat(contextLength + 100) }] }), 'invalid_request_error', 400);
  assert.match(long.message, /prompt is too long/);
  const block = (one) => ({ messages: [{ role: 'user', content: [one] }] });
  for (const [body, names] of [
    [block({ type: 'image', source: { type: 'url', url: 'x' } }), /messages\[0\]\.content\[0\]\.type.*'image'/],
    [block({ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' } }), /'document'/],
    [{ tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, /tools\[0\]\.type.*web_search_20250305/],
    [{ tools: [{ name: 'f', input_schema: { type: 'object' } }] }, /tools/], // no template shows them
  ])
    for (const stream of [false, true])
      assert.match((await rejects(ask({ ...body, stream }), 'invalid_request_error', 400)).message, names);
  await rejects(client.messages.batches.list(), 'not_found_error', 404);
  const large = await rejects(ask({ messages: [{ role: 'user', content: 'x'.repeat(11 << 20) }] }), 'request_too_large', 413);
  assert.ok(large instanceof Anthropic.APIError);
});

test('one whose time is over is an error, and in a stream an event', async () => {
  const late = { max_tokens: 400, ignore_eos: true, timeout: 0.001 };
  await rejects(ask(late), 'timeout_error', 504);
  // A heartbeat has the stream begin with the admission.
  const stream = await ask({ ...late, stream: true, stream_options: { heartbeat_interval: 5 } }).catch((error) => error);
  if (stream instanceof Anthropic.APIError) return assert.equal(stream.status, 504); // it was over before that
  const error = await (async () => {
    for await (const _ of stream);
  })().then(
    () => assert.fail('the stream ended well'),
    (e) => e,
  );
  assert.ok(error instanceof Anthropic.APIError, `${error}`);
  assert.equal(error.type, 'timeout_error');
});

test('an aborted stream frees its request', async () => {
  const open = async () => {
    const all = await (await fetch(`${url}/metrics`)).text();
    return Number(all.split('\n').find((l) => l.startsWith('godwit_requests_open ')).split(' ')[1]);
  };
  const stream = await ask({ stream: true, ignore_eos: true, max_tokens: Math.floor(contextLength / 2) });
  for await (const event of stream) if (event.type === 'content_block_delta') break;
  assert.ok(stream.controller.signal.aborted);
  const deadline = Date.now() + 30_000;
  while ((await open()) > 0) {
    assert.ok(Date.now() < deadline, 'the request is still open after 30 s');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});
