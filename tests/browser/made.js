// Recordings as runtime's page_json.hpp describes them, made by hand, and a page that fetches them.
import { readFileSync } from 'node:fs';

const columns = ['process', 'number', 'kind', 'message', 'flags', 'cause', 'sender', 'receiver', 'name', 'request', 'thread', 'begin',
  'queued', 'length', 'wait', 'made', 'count', 'bytes', 'depth'];

export const delivery = 0, sent = 1, span = 4;

// events: {kind, cause (index of an event), from, to (indexes of actors), name, request, begin (ns), length, attributes, text}
export function recording({ actors, events, live = false, origin = 0 }) {
  const names = [''], requests = [''], contents = [], attributes = [];
  const made = Object.fromEntries(columns.map((c) => [c, []]));
  const at = (table, entry) => (table.includes(entry) ? table.indexOf(entry) : table.push(entry) - 1);
  let before = 0;
  events.forEach((e, i) => {
    const row = {
      process: e.process ?? 0, number: i + 1, kind: e.kind ?? delivery, cause: (e.cause ?? -1) + 1, sender: (e.from ?? -1) + 1, receiver: (e.to ?? -1) + 1,
      name: at(names, e.name ?? ''), request: at(requests, e.request ?? ''), begin: e.begin - before, length: e.length ?? 100, bytes: 64,
    };
    before = e.begin;
    for (const c of columns) made[c].push(row[c] ?? 0);
    if (e.text) contents.push([i, e.text.length, [], e.text]);
    if (e.attributes) attributes.push([i, ...Object.entries(e.attributes).flat()]);
  });
  const processes = [...new Set(made.process)].map((p) => ({ key: String(p), name: `process-${p}`, started_unix_ns: '0', facts: [] }));
  return {
    godwit_trace_page: 1, title: 'made', live, events_total: events.length, left_out: 0, others_left_out: 0, texts_left_out: 0,
    attributes_left_out: 0, origin_ns: String(origin), processes, columns: made, far_causes: [], contents, attributes, names, requests,
    actors: actors.map((a, i) => (typeof a === 'string' ? [0, String(i + 1), a] : a)), remarks: [],
  };
}

// Answers for `own`: the page of a file without its recording, and what `next()` gives: an object, a string, or a number
// (of HTTP).
export async function serve(page, own, file, next) {
  const html = readFileSync(file, 'utf8').replace(/(<script type="application\/json" id="recording">)[^<]*/, '$1');
  await page.route(`${own}**`, async (route) => {
    if (!route.request().url().endsWith('/recording.json')) return route.fulfill({ contentType: 'text/html', body: html });
    const given = await next();
    if (typeof given === 'number') return route.fulfill({ status: given, body: 'no' });
    return route.fulfill({ contentType: 'application/json', body: typeof given === 'string' ? given : JSON.stringify(given) });
  });
}
