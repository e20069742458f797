// Every field of the table, driven by the npm openai client, streaming and not.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import OpenAI from 'openai';
import { refused, supported, table } from './fields.js';

const url = process.env.GODWIT_URL;
if (!url) throw new Error('GODWIT_URL is not set');
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 60_000 });
let model;
before(async () => {
  model = (await client.models.list()).data[0].id;
});

const calls = {
  c: (body) => client.completions.create({ model, prompt: 'A hacker is', max_tokens: 3, ...body }),
  h: (body) =>
    client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 3, ...body }),
  r: (body) => client.responses.create({ model, input: 'Hi', max_output_tokens: 3, ...body }),
};
const names = { c: 'completions', h: 'chat', r: 'responses' };
/// How many answers there are, and how many of them this chunk or event ends.
const count = (whole) => (whole.object === 'response' ? Math.min(whole.output.length, 1) : whole.choices.length);
const ends = ({ choices, type }) =>
  choices ? choices.filter((c) => c.finish_reason).length : Number(['response.completed', 'response.incomplete'].includes(type));
const complete = (body) => calls.c(body);

async function refusal(promise) {
  const error = await promise.then(
    () => assert.fail('the request was accepted'),
    (e) => e,
  );
  assert.ok(error instanceof OpenAI.BadRequestError, `${error}`);
  assert.equal(error.type, 'invalid_request_error');
  return error;
}

test('the table in the documentation is made of these fields', () => {
  const page = readFileSync(new URL('../../../docs/api.md', import.meta.url), 'utf8');
  const [, between] = page.split(/<!-- fields:[^>]*-->\n/);
  assert.equal(between?.trim(), table().trim(), 'run: node tests/e2e/openai/fields.js --table');
});

for (const one of supported.filter((f) => !f.own))
  for (const at of one.at)
    test(`${one.field} is taken (${names[at]}), and what is wrong with it is said`, async () => {
      const body = { ...one.with, [one.field]: one.value };
      const whole = await calls[at](body);
      assert.ok(count(whole) >= 1);
      assert.ok(whole.usage.total_tokens > 0);
      const unstreamed = ['best_of', 'prompt_logprobs', 'use_beam_search', 'length_penalty'].includes(one.field);
      if (!unstreamed) {
        let reasons = 0;
        for await (const chunk of await calls[at]({ ...body, stream: true })) reasons += ends(chunk);
        assert.equal(reasons, count(whole));
      }
      for (const wrong of one.wrong) {
        const error = await refusal(calls[at]({ ...one.with, [one.field]: wrong }));
        assert.ok(error.param?.startsWith(one.field), `${error.param}: ${error.message}`);
      }
    });

for (const one of refused)
  for (const at of one.at)
    test(`${one.field} is refused by name (${names[at]})`, async () => {
      const error = await refusal(calls[at]({ [one.field]: one.value }));
      assert.equal(error.param, one.field);
      assert.equal(error.code, 'unsupported_parameter');
      if (one.passes !== undefined) assert.equal(count(await calls[at]({ [one.field]: one.passes })), 1);
    });

test('a field that nobody knows is refused by name', async () => {
  for (const at of 'chr') {
    const error = await refusal(calls[at]({ no_such_field: 1 }));
    assert.equal(error.param, 'no_such_field');
    assert.equal(error.code, 'unknown_parameter');
  }
});

test('several answers differ, and each is that of its own seed', async () => {
  // Their log-probabilities change no order.
  const asked = { max_tokens: 12, temperature: 1, ignore_eos: true, logprobs: 0 };
  const three = await complete({ ...asked, seed: 5, n: 3 });
  for (const [i, choice] of three.choices.entries()) {
    assert.equal(choice.index, i);
    const alone = await complete({ ...asked, seed: 5 + i });
    assert.equal(choice.text, alone.choices[0].text);
    assert.equal(three.usage.prompt_tokens, alone.usage.prompt_tokens);
  }
  assert.equal(three.usage.completion_tokens, 36);
  assert.equal(new Set(three.choices.map((c) => c.text)).size, 3);
});

test('best_of gives the answers whose tokens are the most probable', async () => {
  const asked = { max_tokens: 8, temperature: 1.5, ignore_eos: true, seed: 1, logprobs: 0 };
  const all = await complete({ ...asked, n: 6 });
  const mean = (c) => c.logprobs.token_logprobs.reduce((a, b) => a + b, 0) / c.logprobs.token_logprobs.length;
  const order = [...all.choices].sort((a, b) => mean(b) - mean(a)).map((c) => c.text);
  const best = await complete({ ...asked, n: 2, best_of: 6 });
  assert.deepEqual(best.choices.map((c) => c.text), order.slice(0, 2));
  assert.deepEqual(best.choices.map((c) => c.index), [0, 1]);
  const quiet = await complete({ ...asked, logprobs: undefined, best_of: 6 });
  assert.equal(quiet.choices[0].text, order[0]);
  assert.equal(quiet.choices[0].logprobs, null);
});

test('a bias forces a token or forbids it', async () => {
  const greedy = { temperature: 0, max_tokens: 4, ignore_eos: true };
  const tokenize = async (prompt) =>
    (await (await fetch(`${url}/tokenize`, { method: 'POST', body: JSON.stringify({ prompt, add_special_tokens: false }) })).json())
      .tokens;
  const [wanted] = await tokenize('x');
  const forced = await complete({ ...greedy, logit_bias: { [wanted]: 100 } });
  assert.deepEqual(await tokenize(forced.choices[0].text), await tokenize('xxxx'));
  const free = await complete({ ...greedy, max_tokens: 1, logprobs: 1 });
  const [first] = await tokenize(free.choices[0].text);
  const other = await complete({ ...greedy, max_tokens: 1, logit_bias: { [first]: -100 } });
  assert.notEqual(other.choices[0].text, free.choices[0].text);
});

test("the prompt's log-probabilities are those of its tokens as answers", async () => {
  const ids = (await (await fetch(`${url}/tokenize`, { method: 'POST', body: JSON.stringify({ prompt: 'A hacker is a person who' }) })).json())
    .tokens;
  const echoed = await complete({ prompt: ids, max_tokens: 0, echo: true, logprobs: 3 });
  const { token_logprobs: told, tokens, text_offset: offsets } = echoed.choices[0].logprobs;
  assert.equal(told.length, ids.length);
  assert.equal(tokens.length, ids.length);
  assert.equal(told[0], null);
  assert.equal(echoed.usage.completion_tokens, 0);
  assert.deepEqual([...offsets].sort((a, b) => a - b), offsets);
  const listed = (await complete({ prompt: ids, max_tokens: 1, prompt_logprobs: 20 })).choices[0].prompt_logprobs;
  assert.equal(listed.length, ids.length);
  assert.equal(listed[0], null);
  let compared = 0;
  for (let i = 1; i < ids.length; ++i) {
    const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-3, `token ${i}: ${a} and ${b}`);
    near(listed[i][ids[i]].logprob, told[i]);
    // As the answer to what comes before it, forced by a bias, which leaves the told log-probability alone.
    const drawn = await complete({ prompt: ids.slice(0, i), max_tokens: 1, temperature: 0, logprobs: 0, ignore_eos: true, logit_bias: { [ids[i]]: 100 } });
    if (drawn.choices[0].logprobs.tokens[0] !== tokens[i]) continue;
    near(drawn.choices[0].logprobs.token_logprobs[0], told[i]);
    compared += 1;
  }
  assert.ok(compared > 0);
  const chat = await calls.h({ prompt_logprobs: 1 });
  assert.equal(chat.prompt_logprobs[0], null);
  assert.equal(chat.prompt_logprobs.length, chat.usage.prompt_tokens);
});

test('an echo streams the prompt with its log-probabilities first', async () => {
  const asked = { max_tokens: 3, echo: true, logprobs: 1, temperature: 0, ignore_eos: true };
  const whole = (await complete(asked)).choices[0];
  let text = '';
  const told = [];
  for await (const chunk of await complete({ ...asked, stream: true })) {
    text += chunk.choices[0].text;
    told.push(...(chunk.choices[0].logprobs?.token_logprobs ?? []));
  }
  assert.equal(text, whole.text);
  assert.deepEqual(told, whole.logprobs.token_logprobs);
});

test('a request whose time is over is an error of the server', async () => {
  const error = await complete({ max_tokens: 400, ignore_eos: true, timeout: 0.001 }).then(
    () => null,
    (e) => e,
  );
  assert.ok(error instanceof OpenAI.InternalServerError, `${error}`);
  assert.equal(error.status, 504);
  assert.equal(error.code, 'timeout');
});

test('what is not served is 404 by the class of its error', async () => {
  const error = await client.embeddings.create({ model, input: 'x' }).then(
    () => null,
    (e) => e,
  );
  assert.ok(error instanceof OpenAI.NotFoundError, `${error}`);
  assert.equal(error.code, 'unsupported_endpoint');
});

test('an answer under a JSON Schema parses and has what it asks for, whatever the temperature', async () => {
  const schema = {
    type: 'object',
    properties: {
      name: { type: 'string', maxLength: 8 },
      age: { type: 'integer', minimum: 0, maximum: 150 },
      tags: { type: 'array', items: { enum: ['a', 'b'] }, maxItems: 3 },
    },
    required: ['name', 'age'],
    additionalProperties: false,
  };
  const response_format = { type: 'json_schema', json_schema: { name: 'person', strict: true, schema } };
  for (const temperature of [0, 1, 2])
    for (const stream of [false, true]) {
      const asked = { response_format, max_tokens: 300, temperature, seed: 3 };
      let text = '';
      let reason;
      if (stream)
        for await (const chunk of await calls.h({ ...asked, stream: true })) {
          text += chunk.choices[0].delta.content ?? '';
          reason = chunk.choices[0].finish_reason ?? reason;
        }
      else {
        const [choice] = (await calls.h(asked)).choices;
        text = choice.message.content;
        reason = choice.finish_reason;
      }
      assert.equal(reason, 'stop', text);
      const person = JSON.parse(text);
      assert.ok(person.name.length <= 8 && Number.isInteger(person.age) && person.age <= 150, text);
      for (const tag of person.tags ?? []) assert.ok(['a', 'b'].includes(tag), text);
      assert.deepEqual(Object.keys(person).filter((key) => !(key in schema.properties)), []);
    }
  const object = await calls.h({ response_format: { type: 'json_object' }, max_tokens: 400, temperature: 1, seed: 5 });
  if (object.choices[0].finish_reason === 'stop') assert.equal(typeof JSON.parse(object.choices[0].message.content), 'object');
  const wrong = { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object', properties: { a: { type: 'strin' } } } } };
  const error = await refusal(calls.h({ response_format: wrong }));
  assert.match(error.param, /^response_format\.json_schema\.schema.*properties/);
});
