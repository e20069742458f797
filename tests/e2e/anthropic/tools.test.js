// Tools, with a template that carries them, through Anthropic's npm client.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0, timeout: 60_000 });

const tool = (name, properties) => ({
  name, description: name, input_schema: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false },
});
const tools = [
  tool('weather', { city: { enum: ['Paris', 'Rome'] }, days: { type: 'integer', minimum: 1, maximum: 9 } }),
  { ...tool('clock', { zone: { enum: ['UTC', 'CET'] } }), cache_control: { type: 'ephemeral' } },
];
const messages = [{ role: 'user', content: 'What is the weather in Rome?' }];
const asked = { model: 'default', messages, tools, max_tokens: 300, temperature: 1, seed: 4 };
const ask = (body) => client.messages.create({ ...asked, ...body });
const any = { tool_choice: { type: 'any', disable_parallel_tool_use: true } };

function check(call) {
  assert.equal(call.type, 'tool_use');
  if (call.name === 'clock') assert.ok(['UTC', 'CET'].includes(call.input.zone));
  else {
    assert.equal(call.name, 'weather');
    assert.ok(['Paris', 'Rome'].includes(call.input.city) && call.input.days >= 1 && call.input.days <= 9);
  }
}

test('a call that has to be made is one of the tools with input that fulfils its schema', async () => {
  const answer = await ask(any);
  assert.equal(answer.stop_reason, 'tool_use');
  assert.equal(answer.content.length, 1);
  check(answer.content[0]);
  assert.match(answer.content[0].id, /^toolu_/);
  const chat = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({
      ...asked, tool_choice: 'required', parallel_tool_calls: false,
      tools: tools.map(({ name, description, input_schema }) => ({ type: 'function', function: { name, description, parameters: input_schema } })),
    }),
  }).then((r) => r.json());
  const [call] = chat.choices[0].message.tool_calls;
  assert.equal(call.function.name, answer.content[0].name);
  assert.deepEqual(JSON.parse(call.function.arguments), answer.content[0].input);
  assert.equal(answer.usage.input_tokens + answer.usage.cache_read_input_tokens, chat.usage.prompt_tokens);
});

test('its input streams as JSON that grows', async () => {
  const whole = await ask(any);
  let json = '';
  let started;
  let reason;
  for await (const event of await ask({ ...any, stream: true })) {
    if (event.type === 'content_block_start') started = event.content_block;
    if (event.type === 'content_block_delta') {
      assert.equal(event.delta.type, 'input_json_delta');
      json += event.delta.partial_json;
    }
    if (event.type === 'message_delta') reason = event.delta.stop_reason;
  }
  assert.equal(reason, 'tool_use');
  assert.deepEqual(started.input, {});
  assert.equal(started.name, whole.content[0].name);
  assert.deepEqual(JSON.parse(json), whole.content[0].input);
  const collected = await client.messages.stream({ ...asked, ...any }).finalMessage();
  assert.equal(collected.stop_reason, 'tool_use');
  assert.deepEqual(collected.content[0].input, whole.content[0].input);
});

test('a named tool is called', async () => {
  const answer = await ask({ tool_choice: { type: 'tool', name: 'clock' } });
  assert.equal(answer.stop_reason, 'tool_use');
  assert.equal(answer.content[0].name, 'clock');
  check(answer.content[0]);
});

test('without a call the answer is text', async () => {
  const answer = await ask({ tool_choice: { type: 'none' }, max_tokens: 8 });
  assert.deepEqual(answer.content.map((b) => b.type), ['text']);
});

test('a conversation goes on with what a tool said', async () => {
  const first = await ask(any);
  const [call] = first.content;
  const turn = (result) => ({
    messages: [...messages, { role: 'assistant', content: first.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, ...result }] }],
    max_tokens: 4,
  });
  for (const result of [{ content: '12:00' }, { content: [{ type: 'text', text: '12:00' }] }, { is_error: true }, {}])
    assert.equal((await ask(turn(result))).type, 'message');
  const said = await client.messages.countTokens({ model: 'default', tools, messages: turn({ content: '12:00' }).messages });
  const failed = await client.messages.countTokens({ model: 'default', tools, messages: turn({ content: '12:00', is_error: true }).messages });
  assert.ok(failed.input_tokens > said.input_tokens, 'the model is told that it failed');
});

test("the client's own helper runs tools", async () => {
  const inputs = [];
  const runner = client.beta.messages.toolRunner({
    ...asked, ...any, max_iterations: 2,
    tools: tools.map((one) => ({ ...one, type: 'custom', run: (input) => (inputs.push(input), 'done'), parse: (input) => input })),
  });
  const answers = [];
  for await (const answer of runner) answers.push(answer);
  assert.ok(answers.length >= 1 && inputs.length >= 1);
  for (const answer of answers) for (const block of answer.content) if (block.type === 'tool_use') check(block);
});

test('a tool that is none is refused by name', async () => {
  for (const [body, names] of [
    [{ tools: [{ name: 'no name', input_schema: { type: 'object' } }] }, /tools\[0\]\.name/],
    [{ tools: [{ name: 'f' }] }, /tools\[0\]\.input_schema/],
    [{ tool_choice: { type: 'tool', name: 'unheard_of' } }, /unheard_of/],
    [{ tools: [{ ...tools[0], defer_loading: true }] }, /tools\[0\]\.defer_loading/],
  ]) {
    const error = await ask(body).then(
      () => null,
      (e) => e,
    );
    assert.ok(error instanceof Anthropic.BadRequestError, `${error}`);
    assert.match(error.message, names);
  }
});
