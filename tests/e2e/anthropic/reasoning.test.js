// A model that thinks before it answers, through Anthropic's npm client: TEMPLATE_OPENS is set where the template opens
// what is thought; otherwise the template is Qwen3's, which leaves it to the model or closes it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const opens = process.env.TEMPLATE_OPENS === '1';
const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0, timeout: 60_000 });
const messages = [{ role: 'user', content: 'Where to?' }];
// The small model never closes it and may not end, so that it is cut by its length.
const asked = { model: 'default', messages, max_tokens: 60, min_tokens: 60, temperature: 0, seed: 4 };

test('what is thought is a block of its own, streamed and not', { skip: !opens }, async () => {
  const answer = await client.messages.create(asked);
  assert.equal(answer.stop_reason, 'max_tokens');
  assert.deepEqual(answer.content.map((b) => b.type), ['thinking']);
  const [{ thinking, signature }] = answer.content;
  assert.ok(thinking.length > 60);
  assert.equal(signature, '');
  assert.equal(answer.usage.output_tokens_details.thinking_tokens, 60);
  const stream = client.messages.stream(asked);
  let told = '';
  stream.on('thinking', (delta) => (told += delta));
  const collected = await stream.finalMessage();
  assert.equal(told, thinking);
  assert.deepEqual(collected.content, answer.content);
  const omitted = await client.messages.create({ ...asked, thinking: { type: 'adaptive', display: 'omitted' } });
  assert.deepEqual(omitted.content, [{ type: 'thinking', thinking: '', signature: '' }]);
  assert.equal(omitted.usage.output_tokens, 60);
});

test('a template that leaves it to the client is told', { skip: opens }, async () => {
  const count = async (thinking) => (await client.messages.countTokens({ model: 'default', messages, thinking })).input_tokens;
  const free = await count(undefined);
  assert.equal(await count({ type: 'adaptive' }), free);
  assert.equal(await count({ type: 'enabled', budget_tokens: 1024 }), free);
  assert.ok((await count({ type: 'disabled' })) > free, 'the prompt says that nothing is thought');
  const answer = await client.messages.create({ ...asked, thinking: { type: 'disabled' } });
  assert.deepEqual(answer.content.map((b) => b.type), ['text']);
  assert.equal(answer.usage.output_tokens_details.thinking_tokens, 0);
});

test('what was thought before a call goes back to the template', { skip: opens }, async () => {
  const turn = (blocks) => ({
    model: 'default',
    messages: [
      ...messages,
      { role: 'assistant', content: [...blocks, { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'x' }] },
    ],
    tools: [{ name: 'f', input_schema: { type: 'object' } }],
  });
  const count = async (blocks) => (await client.messages.countTokens(turn(blocks))).input_tokens;
  const without = await count([]);
  assert.ok((await count([{ type: 'thinking', thinking: 'Let me think of it.', signature: 'none of ours' }])) > without);
  assert.equal(await count([{ type: 'redacted_thinking', data: 'x' }]), without);
});
