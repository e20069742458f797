// Low-rank adapters, which clients name as models, seen through the npm openai client. The server has two, `sql` and
// `law`, and `ADAPTERS` is the directory that they lie in.
import assert from 'node:assert/strict';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import OpenAI from 'openai';

const url = process.env.GODWIT_URL;
const directory = process.env.ADAPTERS;
if (!url || !directory) throw new Error('GODWIT_URL and ADAPTERS are not set');
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 60_000 });
const ask = async (model, more) =>
  client.completions.create({ model, prompt: 'A hacker is', max_tokens: 24, ignore_eos: true, temperature: 0, ...more });
const text = async (model, more) => (await ask(model, more)).choices[0].text;

test('adapters are listed beside the model that they are adapters of', async () => {
  const { data } = await client.models.list();
  assert.deepEqual(
    data.map((m) => [m.id, m.parent]),
    [
      ['default', null],
      ['law', 'default'],
      ['sql', 'default'],
    ],
  );
  assert.equal((await client.models.retrieve('sql')).parent, 'default');
});

test('each answers for itself, whoever else is in the batch', async () => {
  const models = ['default', 'sql', 'law'];
  const alone = [];
  for (const model of models) alone.push(await text(model));
  assert.equal(new Set(alone).size, 3);
  const all = await Promise.all([...Array(24).keys()].map((i) => text(models[i % 3], { seed: i })));
  all.forEach((answer, i) => assert.equal(answer, alone[i % 3]));
  assert.equal((await ask('sql')).model, 'sql');
});

test('chats and streams have them, too', async () => {
  const messages = [{ role: 'user', content: 'What is a hacker?' }];
  const whole = await client.chat.completions.create({ model: 'law', messages, max_tokens: 20, temperature: 0 });
  assert.equal(whole.model, 'law');
  let streamed = '';
  const stream = await client.chat.completions.create({ model: 'law', messages, max_tokens: 20, temperature: 0, stream: true });
  for await (const chunk of stream) {
    assert.equal(chunk.model, 'law');
    streamed += chunk.choices[0]?.delta?.content ?? '';
  }
  assert.equal(streamed, whole.choices[0].message.content);
});

test('what the prefix cache has of a prompt is not taken for what an adapter makes of it', async () => {
  const prompt = 'The same long beginning of a prompt, which fills several blocks of the cache. '.repeat(6);
  const cached = async (model) => (await ask(model, { prompt, max_tokens: 4 })).usage.prompt_tokens_details.cached_tokens;
  assert.equal(await cached('default'), 0);
  assert.ok((await cached('default')) > 0);
  assert.equal(await cached('sql'), 0);
  assert.ok((await cached('sql')) > 0);
});

test('they come and go while the server runs', async () => {
  await assert.rejects(ask('copy'), { status: 404, code: 'model_not_found' });
  cpSync(join(directory, 'sql'), join(directory, 'copy'), { recursive: true });
  assert.equal(await text('copy'), await text('sql'));
  rmSync(join(directory, 'copy'), { recursive: true });
  await assert.rejects(ask('copy'), { status: 404, code: 'model_not_found' });
});
