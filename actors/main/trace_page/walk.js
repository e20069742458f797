// The messages by which a model request got its last token, as runtime/trace/analysis/request_walk.cpp finds them.
//
// Causes alone do not lead there: a step of a device that serves several requests is caused by the step before it, and
// so by whoever woke the engine; a decision for several requests is caused by the first one; a migration by a timer of
// the scheduler. So the walk goes up along causes until before the request had come to where it is, or to such a timer,
// and goes over to the message that brought it there, or to the last step that was for it there.
class RequestWalk {
  constructor(model, entry) {
    this.model = model;
    this.entry = entry;
    this.about = entry.own.filter((i) => model.kind[i] === kind.delivery);
    this.arrivals = this.about.filter((i) => this.is(i, 'generate_order') || this.is(i, 'adopt_order'));
    this.lookBelow(entry.http >= 0 ? entry.http : entry.start);
    this.arrivals.sort((a, b) => a - b);
    this.events = []; // from the beginning, or from where causes are missing, to the last token
    this.held = new Set(); // of these, what its actor handled later than it had got the request, and for another reason
    this.whole = false;
    const last = this.lastMessage();
    if (last >= 0) this.walk(last);
  }

  ours(i) {
    return this.model.about[i] === this.entry.index;
  }

  is(i, type) {
    return this.model.kind[i] === kind.delivery && this.model.names[this.model.name[i]].endsWith(type);
  }

  // Before it has a number, a request is known by what follows from its HTTP request.
  lookBelow(root) {
    const {model} = this;
    const todo = [root];
    for (let n = 0; n < todo.length && n < 64; n++) {
      const i = todo[n];
      if (model.about[i] === 0 || i === root) for (const effect of model.effectsList(i)) todo.push(effect);
      if (model.about[i] === 0 && (this.is(i, 'submit_request') || this.is(i, 'dispatch_query'))) this.arrivals.push(i);
    }
  }

  // The one upon which its home said how it ended. Where that is not recorded: the last message with tokens that is
  // about it, or that an actor sent which was given it; one with the tokens of several requests is about none alone.
  lastMessage() {
    const {model, entry} = this;
    const said = entry.own.findLast((i) => model.kind[i] === kind.note && model.names[model.name[i]] === 'ownership');
    if (said !== undefined && model.cause[said] >= 0 && this.is(model.cause[said], 'token_updates')) return model.cause[said];
    const given = new Set(this.about.map((i) => model.receiver[i]));
    for (let i = model.count - 1; i >= 0 && model.begin[i] >= entry.first; i--) {
      if (model.begin[i] > entry.last || !this.is(i, 'token_updates')) continue;
      if (this.ours(i) || (model.about[i] === 0 && given.has(model.sender[i]))) return i;
    }
    return this.about.findLast((i) => model.begin[i] <= entry.last) ?? -1;
  }

  // The last one that the actor handled until then.
  latest(among, at) {
    const {model, entry} = this;
    let low = 0, high = among.length; // they are by time
    while (low < high) {
      const middle = (low + high) >> 1;
      if (model.begin[among[middle]] > model.begin[at] || among[middle] > at) high = middle;
      else low = middle + 1;
    }
    while (--low >= 0 && model.begin[among[low]] >= entry.first)
      if (model.receiver[among[low]] === model.receiver[at]) return among[low];
    return -1;
  }

  // Along causes. done: to the beginning; otherwise path[last] was held since `arrived` brought the request.
  climb(from, path) {
    const {model, entry} = this;
    let out = {done: false, last: 0, arrived: -1};
    for (let i = from; i >= 0 && path.length <= model.count; i = model.cause[i]) {
      if (i === entry.http) return {done: true, last: 0, arrived: -1};
      if (model.begin[i] < entry.first) break;
      if (out.arrived >= 0 && model.begin[i] < model.begin[out.arrived]) break;
      path.push(i);
      if (i === entry.start && entry.http < 0) return {done: true, last: 0, arrived: -1};
      if (model.kind[i] !== kind.delivery) continue;
      const arrived = this.latest(this.arrivals, i);
      if (arrived < 0) continue;
      // Where it was before it came to where it is now.
      if (out.arrived >= 0 && arrived < out.arrived) continue;
      // On its own way there is nothing to go over to.
      out = arrived === i ? {done: false, last: 0, arrived: -1} : {done: false, last: path.length - 1, arrived};
      if (model.message[i] === messageKind.timer && !this.ours(i)) break; // one of nobody, or of others
    }
    return out;
  }

  // For actors of other kinds: the earliest message of what was climbed whose actor had handled one about the request.
  guess(from, path) {
    const {model} = this;
    for (let at = path.length - 1; at >= from; at--) {
      if (model.kind[path[at]] !== kind.delivery) continue;
      const before = this.latest(this.about, path[at]);
      if (before >= 0 && before !== path[at] && model.begin[before] < model.begin[path[at]]) return {last: at, arrived: before};
    }
    return {last: 0, arrived: -1};
  }

  // What an actor got of a step that was for the request: the step's output, or a message upon that. The step itself is
  // beside these, an effect of the order to run it.
  cameOfItsStep(i) {
    const {model} = this;
    if (model.kind[i] !== kind.delivery) return false;
    for (let n = 0, cause = model.cause[i]; n < 3 && cause >= 0; n++, cause = model.cause[cause]) {
      const step = isStep(model, cause) ? cause : model.effectsList(cause).find((effect) => isStep(model, effect));
      if (step !== undefined) return !isForOthers(model, step, this.entry.name);
    }
    return false;
  }

  // While an actor had the request and `held` had not come yet, steps may have been for it.
  progress(arrived, held) {
    const {model} = this;
    for (let i = held - 1; i >= arrived; i--)
      if (model.receiver[i] === model.receiver[held] && model.begin[i] < model.begin[held] && this.cameOfItsStep(i)) return i;
    return arrived;
  }

  walk(last) {
    const path = [];
    const goneOver = new Set();
    for (let from = last; ;) {
      const begun = path.length;
      let found = this.climb(from, path);
      this.whole = found.done;
      if (this.whole) break;
      if (found.arrived < 0) found = this.guess(begun, path);
      if (found.arrived < 0) break;
      const back = this.progress(found.arrived, path[found.last]);
      if (goneOver.has(back)) break;
      goneOver.add(back);
      path.length = found.last + 1;
      this.held.add(path[found.last]);
      from = back;
    }
    this.events = path.reverse();
  }
}
