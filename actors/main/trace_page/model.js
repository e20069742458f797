// The recording in memory: columns of typed arrays, and what follows from causes. page_json.hpp has the format.

const kinds = ['delivery', 'sent', 'spawned', 'ended', 'span', 'note', 'gap'];
const messageKinds = ['message', 'request', 'answer', 'failure', 'timer', 'down', 'stop'];
const kind = Object.fromEntries(kinds.map((name, i) => [name, i]));
// Above 40 bits is the number of the thread that recorded it, and bit 39 says that it lay beside the thread's messages
// (runtime/trace/analysis/labels.cpp).
function eventName(process, number) {
  const n = BigInt(number);
  const thread = n >> 40n;
  if (thread === 0n) return `${process}.${n}`;
  return `${process}.${thread}${(n >> 39n) & 1n ? 'b' : ''}-${n & ((1n << 39n) - 1n)}`;
}

const messageKind = Object.fromEntries(messageKinds.map((name, i) => [name, i]));

class Model {
  constructor(data) {
    if (data.godwit_trace_page !== 1) throw new Error('this is no recording that the page knows');
    this.title = data.title;
    this.live = data.live;
    this.processes = data.processes;
    this.names = data.names;
    this.shortNames = data.names.map(shortType);
    this.requestNames = data.requests;
    this.requestNumbers = new Map(data.requests.map((r, i) => [r, i]));
    this.remarks = data.remarks;
    this.eventsTotal = data.events_total;
    this.leftOut = data.left_out;
    this.othersLeftOut = data.others_left_out;
    this.textsLeftOut = data.texts_left_out;
    this.attributesLeftOut = data.attributes_left_out;
    this.origin = Number(data.origin_ns);
    const c = data.columns;
    this.count = c.kind.length;
    this.process = Uint32Array.from(c.process);
    this.number = c.number;
    this.kind = Uint8Array.from(c.kind);
    this.message = Uint8Array.from(c.message);
    this.flags = Uint8Array.from(c.flags);
    this.name = Uint32Array.from(c.name);
    this.request = Uint32Array.from(c.request);
    this.thread = c.thread;
    this.wait = c.wait;
    this.made = c.made;
    this.lost = c.count;
    this.bytes = c.bytes;
    this.depth = c.depth;
    this.cause = Int32Array.from(c.cause, (v) => (v > 0 ? v - 1 : -1));
    this.times(c);
    this.actors = data.actors.map(([process, id, name], index) => this.actor(index, process, id, name));
    this.outsides = new Map();
    this.sender = Int32Array.from(c.sender, (v, i) => this.end(v - 1, i));
    this.receiver = Int32Array.from(c.receiver, (v, i) => this.end(v - 1, i));
    this.farCauses = new Map(data.far_causes.map(([i, process, number]) => [i, eventName(process, number)]));
    this.contents = new Map(data.contents.map(([i, size, actors, text]) => [i, {size, actors, text}]));
    this.attributes = new Map(data.attributes.map(([i, ...rest]) => [i, rest]));
    this.effectsOf();
    this.actorNumbers = new Map(this.actors.map((a, i) => [a.key, i]));
  }

  times(c) {
    this.begin = new Float64Array(this.count);
    this.queued = new Float64Array(this.count);
    this.end_ = new Float64Array(this.count);
    let now = 0;
    this.last = 0;
    for (let i = 0; i < this.count; i++) {
      now += Number(c.begin[i]);
      this.begin[i] = now;
      this.queued[i] = now - Math.max(0, Number(c.queued[i]));
      this.end_[i] = now + Math.max(0, Number(c.length[i]));
      if (this.end_[i] > this.last) this.last = this.end_[i];
    }
  }

  actor(index, process, id, name) {
    const outside = id === '0';
    const label = outside ? 'outside' : name || 'unnamed';
    return {index, process, id, name: label, key: `${process}:${id}`, outside};
  }

  // Whoever is no actor is the outside of the process whose event it is.
  end(index, event) {
    if (index < 0 || !this.actors[index].outside) return index;
    const process = this.process[event];
    if (!this.outsides.has(process)) {
      this.outsides.set(process, this.actors.length);
      this.actors.push(this.actor(this.actors.length, process, '0', ''));
    }
    return this.outsides.get(process);
  }

  // effects of event i: effects[effectsStart[i]] up to effectsStart[i + 1]
  effectsOf() {
    const start = new Uint32Array(this.count + 1);
    for (let i = 0; i < this.count; i++) if (this.cause[i] >= 0) start[this.cause[i] + 1]++;
    for (let i = 0; i < this.count; i++) start[i + 1] += start[i];
    const next = start.slice();
    this.effects = new Uint32Array(start[this.count]);
    for (let i = 0; i < this.count; i++) if (this.cause[i] >= 0) this.effects[next[this.cause[i]]++] = i;
    this.effectsStart = start;
  }

  effectsList(i) {
    return this.effects.subarray(this.effectsStart[i], this.effectsStart[i + 1]);
  }

  // As `godwit trace` writes it: process.thread-number.
  id(i) {
    return eventName(this.process[i], this.number[i]);
  }

  find(id) {
    if (id === '') return -1;
    this.ids ??= new Map(Array.from({length: this.count}, (_, i) => [this.id(i), i]));
    return this.ids.get(id) ?? this.ids.get(`0.${id}`) ?? -1;
  }

  isMessage(i) {
    return this.kind[i] === kind.delivery || this.kind[i] === kind.sent;
  }

  // A message to another process whose delivery is here too is drawn once, as that delivery.
  isShadow(i) {
    return this.kind[i] === kind.sent && this.effectsList(i).some((e) => this.kind[e] === kind.delivery);
  }

  // Who looks at rows goes past shadows: to the cause of one, and to its delivery.
  rowCause(i) {
    const c = this.cause[i];
    return c >= 0 && this.isShadow(c) ? this.cause[c] : c;
  }

  firstEffect(i) {
    const e = this.effectsList(i)[0] ?? -1;
    return e >= 0 && this.isShadow(e) ? this.effectsList(e).find((d) => this.kind[d] === kind.delivery) : e;
  }

  // Timers, and news of an actor's end, have no type.
  typeOf(i) {
    return this.shortNames[this.name[i]] || (this.isMessage(i) ? messageKinds[this.message[i]] : kinds[this.kind[i]]);
  }

  // Actors by their key, or several by their name: 0~migration_source. Nothing: no such actor.
  actorsOf(key) {
    if (this.actorNumbers.has(key)) return new Set([this.actorNumbers.get(key)]);
    const [process, ...name] = key.split('~');
    return new Set(this.actors.filter((a) => String(a.process) === process && a.name === name.join('~')).map((a) => a.index));
  }

  attribute(i, name) {
    const all = this.attributes.get(i) ?? [];
    for (let a = 0; a < all.length; a += 2) if (all[a] === name) return all[a + 1];
    return undefined;
  }

  // The answer to a request, or the request of an answer: they share a number that is unique for who asked.
  other(i) {
    if (this.wait[i] === 0 || !this.isMessage(i)) return -1;
    if (!this.asks) {
      this.asks = new Map();
      this.answers = new Map();
      for (let e = 0; e < this.count; e++) {
        if (this.wait[e] === 0 || this.kind[e] !== kind.delivery) continue;
        if (this.message[e] === messageKind.request) this.asks.set(`${this.sender[e]}/${this.wait[e]}`, e);
        else this.answers.set(`${this.receiver[e]}/${this.wait[e]}`, e);
      }
    }
    const found = this.message[i] === messageKind.request
      ? this.answers.get(`${this.sender[i]}/${this.wait[i]}`)
      : this.asks.get(`${this.receiver[i]}/${this.wait[i]}`);
    return found ?? -1;
  }

  processName(p) {
    return this.processes[p]?.name || `process ${p}`;
  }
}
