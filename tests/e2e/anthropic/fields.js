// Every field of /v1/messages, with what a client may expect of it: the source of the table in docs/api.md and of
// fields.test.js. `value` is sent and must be answered; `wrong` must be a 400 whose message names the field. What a field
// does to the answer is looked at in the other tests.
export const supported = [
  { field: 'model', own: true, note: 'the served one, by its name or one of `--model-aliases`, or one of its [adapters](serving.md#adapters-lora); another is 404' },
  { field: 'max_tokens', value: 2, wrong: [-1, 1.5, 'many', null], note: 'required; more than the context has room for is cut down to that; 0: the prompt is computed and nothing said' },
  { field: 'messages', value: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }], wrong: [[], [{ role: 'tool', content: 'x' }], 'Hi'], note: 'roles user, assistant, system; content as text or [blocks](#messages)' },
  { field: 'system', value: [{ type: 'text', text: 'Be brief.' }], wrong: [7, [{ type: 'image' }]], note: 'a text, or blocks of text' },
  { field: 'stop_sequences', value: ['a', 'b', 'c', 'd', 'e'], wrong: [17, [''], Array(65).fill('a')], note: 'up to 64' },
  { field: 'stream', own: true, note: 'server-sent events; an error in the middle is one' },
  { field: 'temperature', value: 0.3, wrong: [-1, 2.5], note: '0 to 2 (Anthropic: to 1); 0 is greedy' },
  { field: 'top_p', value: 0.5, wrong: [0, 2], note: '' },
  { field: 'top_k', value: 5, wrong: [-2], note: '0: off' },
  { field: 'tools', own: true, note: 'up to 1,024 with an `input_schema`, for templates that carry them ([how](chat_templates.md)); `strict`, `eager_input_streaming` have no effect' },
  { field: 'tool_choice', value: { type: 'none' }, wrong: ['auto', { type: 'required' }, { type: 'any' }], note: 'auto, any, tool, none; `disable_parallel_tool_use`' },
  { field: 'thinking', value: { type: 'enabled', budget_tokens: 1024 }, wrong: [{ type: 'on' }, { type: 'enabled' }, { type: 'adaptive', display: 'updates' }], note: 'enabled, adaptive, disabled: a hint to templates that read `enable_thinking` or `thinking`; `budget_tokens` has no effect; `display`: summarized, which is as it is, or omitted' },
  { field: 'output_config', value: { effort: 'low', format: { type: 'json_schema', schema: { type: 'boolean' } } }, wrong: [{ effort: 'much' }, { format: { type: 'xml' } }, { task_budget: { type: 'tokens', total: 20000 } }], note: '`format`: json_schema ([what of it](structured_output.md)); `effort`: a hint, handed to the template as `reasoning_effort`' },
  { field: 'output_format', value: { type: 'json_schema', schema: { type: 'boolean' } }, wrong: [{ type: 'xml' }], note: 'the older name of `output_config.format`' },
  { field: 'metadata', value: { user_id: 'u' }, wrong: [{ user_id: 1 }], note: 'a label; has no effect' },
  { field: 'cache_control', value: { type: 'ephemeral' }, wrong: [1], note: 'has no effect, here and in blocks and tools: prefixes are found again in any case' },
  { field: 'context_management', value: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] }, wrong: [1, { edits: [{ type: 'compact_20260112' }] }], note: 'edits of the types `clear_...` are taken, and none is applied: `applied_edits` is empty' },
  { field: 'diagnostics', value: { previous_message_id: null }, wrong: [1], note: 'has no effect' },
  { field: 'service_tier', value: 'standard_only', wrong: ['priority'], note: 'auto, standard_only' },
  { field: 'speed', value: 'standard', wrong: ['fast'], note: 'standard' },
  { field: 'stream_options', own: true, note: '`heartbeat_interval`: pings while nothing comes' },
  ...[
    ['seed', 7, ['x']],
    ['presence_penalty', 0.5, [3]],
    ['frequency_penalty', 0.5, [-3]],
    ['repetition_penalty', 1.1, [0]],
    ['logit_bias', { 5: -100 }, [{ five: 1 }]],
    ['min_p', 0.1, [2]],
    ['min_tokens', 1, [-1]],
    ['ignore_eos', true, [1]],
    ['stop_token_ids', [3], [[-1]]],
    ['skip_special_tokens', false, [1]],
    ['include_stop_str_in_output', true, [1]],
    ['structured_outputs', { choice: ['yes', 'no'] }, [{ json: { type: 'x' } }]],
    ['guided_json', { type: 'boolean' }, [{ type: 'x' }]],
    ['guided_choice', ['yes', 'no'], [[]]],
    ['guided_regex', '[ab]{2}', ['(']],
    ['chat_template_kwargs', {}, [1]],
    ['priority', -1, ['x']],
    ['execution_priority', 'high', ['none']],
    ['request_id', 'my-1', ['a b']],
    ['cache_salt', 's', [1]],
    ['timeout', 30, [0, 'x']],
    ['user', 'u', [1]],
    ['safety_identifier', 'u', [1]],
    ['prompt_cache_key', 'u', [1]],
    ['prompt_cache_retention', '24h', [1]],
  ].map(([field, value, wrong]) => ({ field, value, wrong, chats: true })),
];

// Known, not supported: a 400 that names the field. The value that asks for nothing (`passes`) is taken.
export const refused = [
  { field: 'container', value: 'container_1' },
  { field: 'mcp_servers', value: [{ type: 'url', url: 'https://example.com', name: 'x' }], passes: [] },
  { field: 'inference_geo', value: 'us' },
  { field: 'fallbacks', value: [{ model: 'x' }], passes: [] },
  { field: 'compaction', value: {} },
  { field: 'thread', value: { type: 'create' } },
  ...['guided_grammar', 'guided_decoding_backend', 'truncate_prompt_tokens', 'allowed_token_ids', 'kv_transfer_params'].map(
    (field) => ({ field, value: 'x', chats: true }),
  ),
];

const shown = (value) => (value === undefined ? '' : `\`${JSON.stringify(value)}\``);

/// The part of docs/api.md between its marks.
export function table() {
  const rows = ['| field | |', '|---|---|'];
  for (const { field, note } of supported.filter((f) => !f.chats)) rows.push(`| \`${field}\` | ${note} |`);
  const names = supported.filter((f) => f.chats).map((f) => `\`${f.field}\``);
  rows.push(`| ${names.join(', ')} | as in chats |`);
  rows.push('', 'Refused with a 400 that names them, but for the value that asks for nothing:', '');
  rows.push('| field | taken |', '|---|---|');
  for (const { field, passes } of refused.filter((f) => !f.chats)) rows.push(`| \`${field}\` | ${shown(passes)} |`);
  rows.push('| those of the list above that have `all` | the same |');
  return rows.join('\n');
}

if (process.argv[2] === '--table') console.log(table());
