// Requests: which events are about one, and the causal path from its arrival to its end. The path is the one that
// `godwit trace slow` tells (runtime/trace/analysis/slow.hpp).

const numbersIn = (text) => text.match(/\d+/g) ?? [];

// What a span is about, by its name.
function category(model, i) {
  if (model.kind[i] !== kind.span) return model.kind[i] === kind.note ? 'note' : 'handling';
  const name = model.names[model.name[i]];
  if (name.startsWith('device.')) return 'device';
  if (name.startsWith('fabric.')) return 'transfer';
  return name.startsWith('http.') ? 'http' : 'other';
}

// Whether a step says that it was for others alone. It names those it was for, the first 1,024.
function isForOthers(model, step, name) {
  const named = numbersIn(model.attribute(step, 'requests') ?? '');
  return named.length > 0 && named.length < 1024 && !named.includes(name);
}

// The request that an event is about, also where only its other record says so: of a message that was sent and
// delivered, or of what an answer answers.
function aboutOf(model) {
  const about = model.request.slice();
  for (let i = 0; i < model.count; i++) {
    const c = model.cause[i];
    if (c < 0 || model.kind[i] !== kind.delivery || model.kind[c] !== kind.sent) continue;
    if (about[i] === 0) about[i] = about[c];
    if (about[c] === 0) about[c] = about[i];
  }
  for (let i = 0; i < model.count; i++) {
    if (about[i] !== 0 || model.kind[i] !== kind.delivery || model.message[i] === messageKind.request) continue;
    const asked = model.other(i);
    if (asked >= 0) about[i] = about[asked];
  }
  return about;
}

const isStep = (model, i) => model.kind[i] === kind.span && model.names[model.name[i]] === 'device.step';

// Per request: messages about it alone, steps of the device that name it, its HTTP request, its times.
// An instance measures its device before it serves, with requests that nobody made and numbers that others get later:
// steps before the first message are not its own.
function requestTable(model) {
  if (model.table) return model.table;
  const table = model.requestNames.map((name, index) => ({name, index, own: [], steps: [], start: -1, first: Infinity, last: 0, http: -1, client: '', status: '', broken: ''}));
  model.about = aboutOf(model);
  for (let i = 0; i < model.count; i++) {
    const step = isStep(model, i);
    if (category(model, i) === 'http') takeHttp(model, table, i);
    if (isNote(model, i, 'ownership')) takeEnd(table[model.about[i]], model.attribute(i, 'what') ?? '');
    const entry = table[model.about[i]];
    if (model.about[i] !== 0 && !(step && entry.own.length === 0)) entry.own.push(i);
    if (step) for (const name of numbersIn(model.attribute(i, 'requests') ?? '')) {
      const r = table[model.requestNumbers.get(name) ?? 0];
      if (r.own.length > 0) r.steps.push(i);
    }
  }
  model.table = table.slice(1).filter((entry) => entry.own.length > 0 || entry.http >= 0);
  for (const entry of model.table) timesOf(model, entry);
  return model.table;
}

const isNote = (model, i, name) => model.kind[i] === kind.note && model.names[model.name[i]] === name;

// What its home notes as it gives a request up; other notes of ownership are of one that goes on.
function takeEnd(entry, what) {
  if (entry.http >= 0 || !['stop', 'length', 'cancelled', 'timed_out', 'overloaded', 'rejected', 'error'].includes(what)) return;
  entry.status = what;
  entry.broken = ['stop', 'length'].includes(what) ? '' : what;
}

function takeHttp(model, table, i) {
  for (const name of numbersIn(model.attribute(i, 'request') ?? '')) {
    const entry = table[model.requestNumbers.get(name) ?? 0];
    entry.http = i;
    const said = (what) => model.attribute(i, what) ?? '';
    entry.client = said('client_id');
    entry.status = said('status') || (said('abandoned') && 'abandoned');
    // A stream has the status of its beginning, however it ends.
    entry.broken = [entry.status === '200' ? '' : entry.status, said('outcome') === 'complete' ? '' : said('outcome'), said('error')].filter(Boolean).join(', ');
  }
}

function timesOf(model, entry) {
  for (const i of entry.own) {
    entry.first = Math.min(entry.first, model.queued[i]);
    entry.last = Math.max(entry.last, model.end_[i]);
  }
  entry.start = entry.own[0] ?? entry.http;
  if (entry.http >= 0) [entry.first, entry.last] = [model.begin[entry.http], model.end_[entry.http]];
  else submission(model, entry);
}

// Where there is no HTTP, as in simulations, a request begins as a message to its home, which has no number for it yet.
function submission(model, entry) {
  for (let i = entry.start, n = 0; i >= 0 && n < 16; i = model.cause[i], n++) {
    if (model.kind[i] !== kind.delivery || !model.names[model.name[i]].endsWith('submit_request')) continue;
    entry.start = i;
    entry.first = model.queued[i];
    return;
  }
}

// The whole story of a request: how it was submitted, what was about it, its steps, and the tokens that came of them.
function eventsOf(model, entry) {
  if (entry.events) return entry.events;
  const out = new Set(entry.own);
  const todo = [entry.http >= 0 ? entry.http : entry.start];
  for (let n = 0; n < todo.length && n < 64; n++) {
    const i = todo[n];
    if (n > 0 && model.about[i] !== 0) continue;
    out.add(i);
    if (model.other(i) > i) out.add(model.other(i));
    todo.push(...model.effectsList(i).subarray(0, 64));
  }
  for (const step of entry.steps) {
    if (model.begin[step] > entry.last) break;
    out.add(step);
    const asked = model.cause[step];
    if (asked < 0 || model.kind[asked] !== kind.delivery) continue;
    out.add(asked);
    for (const i of model.effectsList(asked)) if (model.kind[i] === kind.delivery && model.flags[i] & 1) out.add(i); // the device was ready
    const answered = model.other(asked);
    if (answered < 0) continue;
    out.add(answered);
    for (const i of model.effectsList(answered)) if (model.names[model.name[i]].endsWith('token_updates')) out.add(i);
  }
  entry.events = [...out].sort((a, b) => a - b);
  return entry.events;
}

const requestOf = (model, name) => requestTable(model).find((entry) => entry.name === name);

const partNames = ['queueing', 'handling', 'held', 'device', 'transfer', 'network', 'timer', 'http', 'other'];

// Where the time of a path went.
class PathTimer {
  constructor(model, entry) {
    this.model = model;
    this.entry = entry;
    this.walk = new RequestWalk(model, entry);
    this.steps = [];
    this.parts = Object.fromEntries(partNames.map((name) => [name, 0]));
    this.now = entry.first;
  }

  // {events, steps: [{what, how, begin, end}], parts, whole}: steps follow each other without a hole.
  run() {
    const {events, whole} = this.walk;
    const {http, last} = this.entry;
    if (events.length > 0) this.time(events, whole);
    this.spend(http, http >= 0 && events.length > 0 ? 'http' : 'other', last);
    return {events, steps: this.steps, parts: this.parts, whole};
  }

  spend(what, how, until) {
    const end = Math.min(until, this.entry.last);
    if (end <= this.now) return;
    this.steps.push({what, how, begin: this.now, end});
    this.parts[how] += end - this.now;
    this.now = end;
  }

  // What a span takes: for steps that were for others alone this request waited in a queue.
  spentBy(i) {
    const how = category(this.model, i);
    return how === 'device' && isForOthers(this.model, i, this.entry.name) ? 'held' : how;
  }

  // What the effect waited for after its cause had been handled.
  wait(cause, effect) {
    const {model} = this;
    const until = model.queued[effect];
    if (model.kind[effect] === kind.delivery && model.message[effect] === messageKind.timer) return this.spend(effect, 'timer', until);
    for (const i of model.effectsList(cause)) {
      const how = this.spentBy(i);
      if (model.kind[i] !== kind.span || !['device', 'held', 'transfer'].includes(how) || model.begin[i] >= until || model.end_[i] <= this.now) continue;
      this.spend(effect, 'other', model.begin[i]);
      this.spend(i, how, Math.min(until, model.end_[i]));
    }
    this.spend(effect, 'other', until);
  }

  time(events, whole) {
    const {model} = this;
    let before = -1;
    for (const i of events) {
      if (before < 0) this.spend(i, this.entry.http >= 0 && whole ? 'http' : 'other', model.queued[i]);
      else if (this.walk.held.has(i)) {
        this.spend(before, 'handling', model.end_[before]);
        this.spend(i, 'held', model.begin[i]);
      } else if (model.kind[before] === kind.sent) this.spend(i, 'network', model.queued[i]);
      else if (model.kind[before] === kind.span && ['device', 'held', 'transfer'].includes(this.spentBy(before))) {
        this.spend(before, this.spentBy(before), Math.min(model.end_[before], model.queued[i]));
        this.spend(i, 'other', model.queued[i]);
      } else {
        this.spend(before, 'handling', Math.min(model.end_[before], model.queued[i]));
        this.wait(before, i);
      }
      this.spend(i, 'queueing', model.begin[i]);
      before = i;
    }
    this.spend(before, 'handling', model.end_[before]);
  }
}

function causalPath(model, entry) {
  entry.path ??= new PathTimer(model, entry).run();
  return entry.path;
}
