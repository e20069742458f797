// Every field of the API, with what a client may expect of it: the source of the table in docs/api.md and of
// fields.test.js. `at`: c completions, h chat, r responses. `value` is sent and must be answered; `wrong` must be a 400 that names
// the field. What a field does to the answer is looked at in effects.test.js.
export const supported = [
  { field: 'model', at: 'chr', note: 'the served one, by its name or one of `--model-aliases`, or one of its [adapters](serving.md#adapters-lora); another is 404. Answers tell its name', own: true },
  { field: 'prompt', at: 'c', value: [[1, 2, 3], [4, 5]], wrong: [[]], note: 'text, texts, token ids, or lists of ids; up to `frontend.prompts_max` (64)' },
  { field: 'messages', at: 'h', value: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }], wrong: [[]], note: 'roles system, developer, user, assistant, tool; content as text or text parts' },
  { field: 'input', at: 'r', value: [{ role: 'user', content: [{ type: 'input_text', text: 'Hi' }] }], wrong: [[], 7, [{ role: 'tool', content: 'x' }]], note: 'a text, or [items](#responses): messages, calls of functions and what came of them, what was thought' },
  { field: 'instructions', at: 'r', value: 'Be brief.', wrong: [7], note: 'the system\'s message, in front of `input`' },
  { field: 'max_tokens', at: 'ch', value: 2, wrong: [-1, 1.5, 'many'], note: 'completions: 16 by default, 0 with `echo`; chat: what the context has room for' },
  { field: 'max_completion_tokens', at: 'ch', value: 2, wrong: [0], note: 'the newer name, which wins' },
  { field: 'max_output_tokens', at: 'r', value: 2, wrong: [0, 'many'], note: 'what the context has room for without it' },
  { field: 'temperature', at: 'chr', value: 0.3, wrong: [-1, 2.5], note: '0 to 2; 0 is greedy' },
  { field: 'top_p', at: 'chr', value: 0.5, wrong: [0, 2], note: '' },
  { field: 'n', at: 'ch', value: 2, wrong: [0, 129], note: 'up to 128 answers, over all the prompts; those of a prompt share its KV; answer i has `seed` + i' },
  { field: 'best_of', at: 'c', value: 2, wrong: [0, 1000], note: 'the `n` of them whose tokens are the most probable on average; bounded as `n`; not streamed above it' },
  { field: 'use_beam_search', at: 'ch', value: true, wrong: ['yes'], note: 'vLLM; the `n` most probable answers that `n` beams find ([how](#beam-search)); up to 16' },
  { field: 'length_penalty', at: 'ch', value: 2, wrong: ['x', 11], with: { use_beam_search: true }, note: 'vLLM; with `use_beam_search`; above 0 long answers are preferred' },
  { field: 'stop', at: 'chr', value: ['a', 'b', 'c', 'd', 'e'], wrong: [17, [''], Array(65).fill('a'), 'a'.repeat(1025)], note: 'up to 64' },
  { field: 'seed', at: 'chr', value: 7, wrong: ['x'], note: 'the same text for the same seed, wherever it runs; -1: any' },
  { field: 'presence_penalty', at: 'chr', value: 0.5, wrong: [3], note: '-2 to 2' },
  { field: 'frequency_penalty', at: 'chr', value: 0.5, wrong: [-3], note: '-2 to 2' },
  { field: 'logit_bias', at: 'chr', value: { 5: -100 }, wrong: [{ five: 1 }, { '05': 1 }, { '-1': 1 }, { 5: 101 }], note: 'up to 1,024 tokens, -100 to 100' },
  { field: 'logprobs', at: 'c', value: 2, wrong: [21, 'x'], note: 'an integer up to 20; with `echo` of the prompt too' },
  { field: 'logprobs', at: 'h', value: true, wrong: [1], note: 'a boolean' },
  { field: 'top_logprobs', at: 'h', value: 2, wrong: [21], with: { logprobs: true }, note: 'up to 20' },
  { field: 'include', at: 'r', value: ['message.output_text.logprobs'], wrong: [['x'], 'x'], note: '`message.output_text.logprobs`; `reasoning.encrypted_content`, which has no effect' },
  { field: 'top_logprobs', at: 'r', value: 2, wrong: [21], with: { include: ['message.output_text.logprobs'] }, note: 'up to 20, with `message.output_text.logprobs` in `include`' },
  { field: 'echo', at: 'c', value: true, wrong: [1], note: '' },
  { field: 'stream', at: 'chr', own: true, note: 'server-sent events; an error in the middle is one. `[DONE]` at the end, but for responses' },
  { field: 'stream_options', at: 'ch', own: true, note: '`include_usage`, `continuous_usage_stats`, `heartbeat_interval` (seconds; comments while nothing comes)' },
  { field: 'stream_options', at: 'r', own: true, note: '`heartbeat_interval`; `include_usage` has no effect: the usage comes in any case' },
  { field: 'response_format', at: 'ch', value: { type: 'text' }, wrong: [{ type: 'xml' }], note: 'text, json_object, json_schema ([what of it](structured_output.md))' },
  { field: 'text', at: 'r', value: { format: { type: 'json_object' }, verbosity: 'medium' }, wrong: [{ format: { type: 'xml' } }, { verbosity: 'lowest' }], note: '`format`: text, json_object, json_schema ([what of it](structured_output.md)); `verbosity`: a hint, handed to the template' },
  { field: 'structured_outputs', at: 'chr', value: { choice: ['yes', 'no'] }, wrong: [{ json: { type: 'x' } }], note: 'vLLM; `json`, `choice`, `regex`, `json_object`' },
  { field: 'guided_json', at: 'chr', value: { type: 'boolean' }, wrong: [{ type: 'x' }], note: 'vLLM; as `structured_outputs.json`' },
  { field: 'guided_choice', at: 'chr', value: ['yes', 'no'], wrong: [[]], note: 'vLLM; as `structured_outputs.choice`' },
  { field: 'guided_regex', at: 'chr', value: '[ab]{2}', wrong: ['('], note: 'vLLM; as `structured_outputs.regex`' },
  { field: 'tools', at: 'hr', own: true, note: 'functions, for templates that carry them ([how](chat_templates.md))' },
  { field: 'tool_choice', at: 'hr', value: 'none', wrong: ['some'], note: 'none, auto, required, or a function' },
  { field: 'parallel_tool_calls', at: 'hr', value: true, wrong: [1], note: '' },
  { field: 'user', at: 'chr', value: 'u', wrong: [1], note: 'a label; has no effect' },
  { field: 'metadata', at: 'ch', value: { a: 'b' }, wrong: [{ a: 1 }], note: 'labels; have no effect' },
  { field: 'metadata', at: 'r', value: { a: 'b' }, wrong: [{ a: 1 }, { a: 'b'.repeat(513) }], note: 'up to 16 labels, which the answer repeats' },
  { field: 'safety_identifier', at: 'chr', value: 'u', wrong: [1], note: 'a label; has no effect' },
  { field: 'prompt_cache_key', at: 'chr', value: 'u', wrong: [1], note: 'a label; prefixes are found by their tokens' },
  { field: 'prompt_cache_retention', at: 'chr', value: '24h', wrong: [1], note: 'has no effect' },
  { field: 'store', at: 'chr', value: true, wrong: [1], note: 'has no effect: nothing is stored' },
  { field: 'service_tier', at: 'chr', value: 'flex', wrong: ['slow', 1], note: 'auto, default, flex, scale or priority; has no effect: there is one' },
  { field: 'timeout', at: 'chr', value: 30, wrong: [0, 'x'], note: 'seconds from arrival to end, then 504; `frontend.request_timeout` without it' },
  { field: 'top_k', at: 'chr', value: 5, wrong: [-2], note: 'vLLM; 0 or -1: off' },
  { field: 'min_p', at: 'chr', value: 0.1, wrong: [2], note: 'vLLM' },
  { field: 'repetition_penalty', at: 'chr', value: 1.1, wrong: [0], note: 'vLLM; over prompt and answer' },
  { field: 'min_tokens', at: 'chr', value: 1, wrong: [-1], note: 'vLLM; no end-of-sequence token or stop string before' },
  { field: 'ignore_eos', at: 'chr', value: true, wrong: [1], note: 'vLLM' },
  { field: 'stop_token_ids', at: 'chr', value: [3], wrong: [[-1], Array(129).fill(3)], note: 'vLLM; up to 128' },
  { field: 'skip_special_tokens', at: 'chr', value: false, wrong: [1], note: 'vLLM' },
  { field: 'include_stop_str_in_output', at: 'chr', value: true, wrong: [1], note: 'vLLM' },
  { field: 'priority', at: 'chr', value: -1, wrong: ['x'], note: 'vLLM; lower first' },
  { field: 'execution_priority', at: 'chr', value: 'high', wrong: ['none'], note: 'godwit: one of `priorities.execution`' },
  { field: 'request_id', at: 'chr', value: 'my-1', wrong: ['a b', 'a'.repeat(129)], note: 'vLLM; part of the answer\'s `id`' },
  { field: 'cache_salt', at: 'chr', value: 's', wrong: [1], note: 'vLLM; KV is shared among equal salts only' },
  { field: 'prompt_logprobs', at: 'ch', value: 2, wrong: [21], note: 'vLLM; not streamed' },
  { field: 'add_special_tokens', at: 'ch', value: true, wrong: [1], note: 'vLLM' },
  { field: 'add_generation_prompt', at: 'h', value: true, wrong: [1], note: 'vLLM' },
  { field: 'continue_final_message', at: 'h', value: true, wrong: [1], with: { add_generation_prompt: false }, note: 'vLLM; with `add_generation_prompt` false' },
  { field: 'documents', at: 'h', value: [], wrong: [1], note: 'vLLM; for templates that show them' },
  { field: 'chat_template_kwargs', at: 'hr', value: {}, wrong: [1], note: 'vLLM; handed to the template' },
  { field: 'prediction', at: 'h', value: { type: 'content', content: [{ type: 'text', text: 'x' }] }, wrong: ['x', { type: 'text', content: 'x' }, { type: 'content' }], note: 'what the answer will be, as far as it is known: it comes the sooner ([how](serving.md#speculative-decoding))' },
  { field: 'reasoning_effort', at: 'h', value: 'low', wrong: ['much'], note: 'a hint, handed to the template' },
  { field: 'verbosity', at: 'h', value: 'low', wrong: ['lowest'], note: 'low, medium or high: a hint, handed to the template' },
  { field: 'reasoning', at: 'r', value: { effort: 'low', summary: 'auto' }, wrong: [{ effort: 'much' }, { summary: 'detailed' }], note: '`effort`: a hint, handed to the template; `summary`: auto, which is none' },
];

// Known, not supported: a 400 that names the field, `code` "unsupported_parameter". The value that asks for nothing
// (`passes`) is taken.
export const refused = [
  { field: 'suffix', at: 'c', value: 'x', passes: '' },
  { field: 'prompt_embeds', at: 'c', value: 'x' },
  { field: 'guided_grammar', at: 'chr', value: 'root ::= "x"' },
  { field: 'guided_decoding_backend', at: 'chr', value: 'outlines' },
  { field: 'guided_whitespace_pattern', at: 'chr', value: ' ' },
  { field: 'early_stopping', at: 'chr', value: true, passes: false },
  { field: 'truncate_prompt_tokens', at: 'chr', value: 5 },
  { field: 'bad_words', at: 'chr', value: ['x'], passes: [] },
  { field: 'allowed_token_ids', at: 'chr', value: [1] },
  { field: 'logits_processors', at: 'chr', value: ['x'], passes: [] },
  { field: 'spaces_between_special_tokens', at: 'chr', value: false, passes: true },
  { field: 'return_tokens_as_token_ids', at: 'chr', value: true, passes: false },
  { field: 'return_token_ids', at: 'chr', value: true, passes: false },
  { field: 'kv_transfer_params', at: 'chr', value: {} },
  { field: 'vllm_xargs', at: 'chr', value: { a: 1 }, passes: {} },
  { field: 'mm_processor_kwargs', at: 'chr', value: { a: 1 }, passes: {} },
  { field: 'functions', at: 'h', value: [{ name: 'f' }], passes: [] },
  { field: 'function_call', at: 'h', value: { name: 'f' }, passes: 'none' },
  { field: 'include_reasoning', at: 'h', value: false, passes: true },
  { field: 'modalities', at: 'h', value: ['text', 'audio'], passes: ['text'] },
  { field: 'audio', at: 'h', value: { voice: 'x', format: 'wav' } },
  { field: 'web_search_options', at: 'h', value: {} },
  { field: 'chat_template', at: 'h', value: '{{ messages }}' },
  { field: 'previous_response_id', at: 'r', value: 'resp_1' },
  { field: 'conversation', at: 'r', value: 'conv_1' },
  { field: 'background', at: 'r', value: true, passes: false },
  { field: 'prompt', at: 'r', value: { id: 'pmpt_1' } },
  { field: 'max_tool_calls', at: 'r', value: 3 },
  { field: 'context_management', at: 'r', value: [{ type: 'compaction' }], passes: [] },
  { field: 'truncation', at: 'r', value: 'auto', passes: 'disabled' },
];

const endpoints = { c: 'completions', h: 'chat', r: 'responses', ch: 'both', hr: 'chat, responses', chr: 'all' };
const shown = (value) => (value === undefined ? '' : `\`${JSON.stringify(value)}\``);

/// The part of docs/api.md between its marks.
export function table() {
  const rows = ['| field | endpoint | |', '|---|---|---|'];
  for (const { field, at, note } of supported) rows.push(`| \`${field}\` | ${endpoints[at]} | ${note} |`);
  rows.push('', 'Refused with a 400 that names them (code `unsupported_parameter`), but for the value that asks for nothing:', '');
  rows.push('| field | endpoint | taken |', '|---|---|---|');
  for (const { field, at, passes } of refused) rows.push(`| \`${field}\` | ${endpoints[at]} | ${shown(passes)} |`);
  return rows.join('\n');
}

if (process.argv[2] === '--table') console.log(table());
