// A model that is told to think first, through the npm openai client: TEMPLATE_OPENS is set where the template opens what
// is thought; otherwise the template is Qwen3's, which leaves it to the model or closes it.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import OpenAI from 'openai';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const opens = process.env.TEMPLATE_OPENS === '1';
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 60_000 });
let model;
before(async () => {
  model = (await client.models.list()).data[0].id;
});

const schema = {
  type: 'object',
  properties: { city: { enum: ['Paris', 'Rome'] }, days: { type: 'integer', minimum: 1, maximum: 9 } },
  required: ['city', 'days'],
};
const bound = { response_format: { type: 'json_schema', json_schema: { name: 'trip', schema } } };
const ask = (body) =>
  client.chat.completions.create({
    model, messages: [{ role: 'user', content: 'Where to?' }], max_tokens: 60, temperature: 0, seed: 4, ...body,
  });

function check(text) {
  const given = JSON.parse(text);
  assert.ok(['Paris', 'Rome'].includes(given.city) && given.days >= 1 && given.days <= 9, text);
}

test('what is thought is not bound by a schema', { skip: !opens }, async () => {
  // The small model never closes it and may not end, so that it is cut by its length.
  const whole = { min_tokens: 60 };
  for (const body of [{}, bound, { n: 2, ...bound, temperature: 1 }]) {
    const answer = await ask({ ...whole, ...body });
    for (const { message, finish_reason } of answer.choices) {
      assert.equal(finish_reason, 'length');
      assert.equal(message.content, null);
      assert.ok(message.reasoning_content.length > 60, message.reasoning_content);
      assert.throws(() => check(message.reasoning_content));
    }
    const { usage } = answer;
    assert.equal(usage.completion_tokens_details.reasoning_tokens, usage.completion_tokens);
    assert.equal(usage.completion_tokens, 60 * answer.choices.length);
  }
  let last;
  let told = 0;
  for await (const chunk of await ask({ ...whole, ...bound, stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } })) {
    last = chunk;
    assert.ok(chunk.usage.completion_tokens_details.reasoning_tokens >= told);
    told = chunk.usage.completion_tokens_details.reasoning_tokens;
  }
  assert.equal(last.usage.completion_tokens_details.reasoning_tokens, 60);
});

test('where the template closes it a schema binds from the first token', { skip: opens }, async () => {
  for (const stream of [false, true]) {
    const asked = { ...bound, chat_template_kwargs: { enable_thinking: false } };
    let text = '';
    let usage;
    if (stream) {
      for await (const chunk of await ask({ ...asked, stream, stream_options: { include_usage: true } })) {
        text += chunk.choices[0]?.delta.content ?? '';
        usage = chunk.usage ?? usage;
      }
    } else {
      const answer = await ask(asked);
      assert.equal(answer.choices[0].message.reasoning_content, undefined);
      text = answer.choices[0].message.content;
      usage = answer.usage;
    }
    check(text);
    assert.equal(usage.completion_tokens_details.reasoning_tokens, 0);
  }
});

test('where the model may think and does not, a schema binds all of it', { skip: opens }, async () => {
  const answer = await ask(bound);
  check(answer.choices[0].message.content);
  assert.equal(answer.usage.completion_tokens_details.reasoning_tokens, 0);
});

// The same by /v1/responses.
const flat = { text: { format: { type: 'json_schema', name: 'trip', schema } } };
const respond = (body) =>
  client.responses.create({ model, input: 'Where to?', max_output_tokens: 60, temperature: 0, seed: 4, ...body });

test('what is thought is an item of its own', { skip: !opens }, async () => {
  const whole = { min_tokens: 60, ...flat };
  const [{ message }] = (await ask({ min_tokens: 60, ...bound })).choices;
  const answer = await respond(whole);
  assert.equal(answer.status, 'incomplete');
  assert.equal(answer.output.length, 1);
  const [item] = answer.output;
  assert.equal(item.type, 'reasoning');
  assert.match(item.id, /^rs_/);
  assert.equal(item.status, 'incomplete');
  assert.deepEqual(item.summary, []);
  assert.equal(item.content[0].text, message.reasoning_content);
  assert.equal(answer.output_text, '');
  assert.equal(answer.usage.output_tokens_details.reasoning_tokens, 60);
  let told = '';
  const names = [];
  for await (const event of await respond({ ...whole, stream: true })) {
    names.push(event.type);
    if (event.type === 'response.reasoning_text.delta') told += event.delta;
    if (event.type === 'response.reasoning_text.done') assert.equal(event.text, told);
  }
  assert.equal(told, message.reasoning_content);
  assert.deepEqual(names.slice(2, 4), ['response.output_item.added', 'response.content_part.added']);
  assert.deepEqual(names.slice(-4), ['response.reasoning_text.done', 'response.content_part.done', 'response.output_item.done', 'response.incomplete']);
});

test('where nothing is thought a response has a message only', { skip: opens }, async () => {
  const answer = await respond({ ...flat, chat_template_kwargs: { enable_thinking: false } });
  assert.deepEqual(answer.output.map((item) => item.type), ['message']);
  check(answer.output_text);
  assert.equal(answer.usage.output_tokens_details.reasoning_tokens, 0);
});

test('what was thought goes back to the template', { skip: opens }, async () => {
  const thought = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Rome is warm in May, and it is May now.' }] };
  const call = { type: 'function_call', call_id: 'c1', name: 'weather', arguments: '{"city":"Rome"}' };
  const result = { type: 'function_call_output', call_id: 'c1', output: 'sunny' };
  const turn = (...items) => respond({ input: [{ role: 'user', content: 'Where to?' }, ...items, result], max_output_tokens: 1 });
  const tokens = async (...items) => (await turn(...items)).usage.input_tokens;
  assert.ok((await tokens(thought, call)) > (await tokens(call)));
});
