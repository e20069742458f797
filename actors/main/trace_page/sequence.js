// The view of messages in order: actors are columns, each event a row.

const sequence = {
  column: 132,
  left: 104,

  make() {
    this.header = h('div', {class: 'lanes'});
    this.rows = new Rows({
      name: 'message', label: 'Messages in order of time', height: 30, class: 'messages', head: this.header, render: (i) => this.row(i),
      nameOf: (i) => this.model.id(this.list[i]), choose: (event) => go({event}), keys: (event) => this.key(event),
    });
    this.text = h('p', {class: 'hint', id: 'sequence-text'});
    byId('sequence').append(this.text, this.rows.element);
  },

  render(model) {
    this.model = model;
    const key = [state.request, state.type, state.actor, state.from, state.to].join('|');
    if (this.key_ !== key || this.of !== model) {
      this.list = this.chosen(model);
      this.lanesOf(model);
      if (this.key_ !== key) {
        this.rows.element.scrollTop = 0;
        this.rows.cursor = '';
      }
      this.key_ = key;
      this.of = model;
    }
    this.picked = model.find(state.event);
    const place = this.list.indexOf(this.picked);
    const fresh = place >= 0 && this.event !== state.event;
    this.event = state.event;
    this.rows.at = this.list.indexOf(model.find(state.event || this.rows.cursor));
    this.rows.show(this.list.length, this.left + this.lanes.length * this.column + 12);
    this.rows.body.style.backgroundPosition = `${this.left}px 0`;
    if (fresh) {
      this.rows.select(place, true);
      this.reveal(this.picked);
    }
    this.text.textContent = `${plural(this.list.length, 'event')} between ${plural(this.actors, 'actor')}`
      + (this.picked >= 0 && place < 0 ? '; the chosen event is not among them' : '')
      + '. Arrow keys and Enter choose; c: its cause, e: its first effect.';
  },

  chosen(model) {
    const [from, to] = windowOf(model);
    const type = state.type ? new Set(model.names.flatMap((n, i) => (n === state.type ? [i] : []))) : null;
    const actors = state.actor ? model.actorsOf(state.actor) : null;
    let all = null;
    if (state.request) {
      const entry = requestOf(model, state.request);
      all = entry ? [...new Set([...eventsOf(model, entry), ...causalPath(model, entry).events])].sort((a, b) => a - b) : [];
    }
    const out = [];
    const count = all ? all.length : model.count;
    for (let n = 0; n < count; n++) {
      const i = all ? all[n] : n;
      if (model.begin[i] < from || model.begin[i] > to) continue;
      if (type && !type.has(model.name[i])) continue;
      if (actors && !actors.has(model.sender[i]) && !actors.has(model.receiver[i])) continue;
      if (model.isShadow(i)) continue;
      out.push(i);
    }
    return out;
  },

  // Columns in the order in which actors first appear.
  lanesOf(model) {
    const seen = new Set();
    for (const i of this.list) {
      if (model.sender[i] >= 0) seen.add(model.sender[i]);
      if (model.receiver[i] >= 0) seen.add(model.receiver[i]);
    }
    const group = grouping(model, seen);
    const lanes = new Map();
    this.laneOf = new Int32Array(model.actors.length).fill(-1);
    for (const actor of seen) {
      const {key, number} = group(actor);
      if (!lanes.has(key)) lanes.set(key, {key, number, actor: model.actors[actor], at: lanes.size, count: 0});
      lanes.get(key).count++;
      this.laneOf[actor] = lanes.get(key).at;
    }
    this.lanes = [...lanes.values()];
    this.actors = seen.size;
    const several = model.processes.length > 1;
    this.header.style.width = `${this.left + this.lanes.length * this.column + 12}px`;
    this.header.replaceChildren(h('span', {class: 'lane-time'}, 'time'), ...this.lanes.map(({actor, key, count}, n) => {
      const whose = count > 1 ? `×${grouped(count)}` : actor.outside ? '' : `#${clean(actor.id, 20)}`;
      return h('a', {class: 'lane', href: hashOf({...state, view: 'sequence', actor: key, event: '', node: ''}), style: {left: `${this.left + n * this.column}px`}, title: `only messages of ${clean(actor.name, 200)} ${whose}`},
        named(actor.name, 40), h('small', {}, whose, several ? [' ', named(model.processName(actor.process), 30)] : ''));
    }));
  },

  center(actor) {
    return this.left + (this.laneOf[actor] + 0.5) * this.column;
  },

  // Sideways to the lanes of both ends, as far as there is room.
  reveal(i) {
    const lanes = [this.model.sender[i], this.model.receiver[i]].filter((a) => a >= 0).map((a) => this.laneOf[a]);
    if (lanes.length === 0) return;
    const {element} = this.rows;
    const begin = Math.min(...lanes) * this.column; // where it is beside the column of times
    const end = this.left + (Math.max(...lanes) + 1) * this.column;
    if (begin < element.scrollLeft) element.scrollLeft = begin;
    else if (end > element.scrollLeft + element.clientWidth) element.scrollLeft = Math.min(begin, end - element.clientWidth);
  },

  row(n) {
    const model = this.model;
    const i = this.list[n];
    const time = h('span', {class: 'row-time'}, moment(model.begin[i]));
    const type = model.typeOf(i);
    const mark = this.picked < 0 ? '' : [model.cause[i], model.rowCause(i)].includes(this.picked) ? ' is-effect' : model.rowCause(this.picked) === i ? ' is-cause' : '';
    const row = h('div', {class: `message of-${kinds[model.kind[i]]}${mark}`, data: {event: model.id(i)}}, time);
    const [a, b] = [model.sender[i], model.receiver[i]];
    if (model.kind[i] === kind.gap) {
      row.append(h('span', {class: 'lost', style: {left: `${this.left}px`}}, `${plural(model.lost[i], 'event')} of ${clean(model.processName(model.process[i]), 30)} lost here`));
    } else if (model.isMessage(i) && a >= 0 && b >= 0 && this.laneOf[a] !== this.laneOf[b]) {
      const [x, y] = [this.center(a), this.center(b)];
      row.append(h('span', {
        class: `arrow ${x < y ? 'right' : 'left'} is-${messageKinds[model.message[i]]}`, style: {left: `${Math.min(x, y)}px`, width: `${Math.abs(y - x)}px`},
      }, h('span', {class: 'arrow-text', style: {maxWidth: `${Math.max(120, Math.abs(y - x) - 8)}px`}}, named(type, 60))));
    } else {
      const whose = a >= 0 && !model.isMessage(i) ? a : b;
      const took = model.kind[i] === kind.span ? ` ${duration(model.end_[i] - model.begin[i])}` : '';
      const word = {spawned: 'begins', ended: 'ends'}[kinds[model.kind[i]]];
      row.append(h('span', {class: 'pill', style: {left: `${(whose >= 0 ? this.center(whose) : this.left + this.column / 2) - this.column / 2 + 4}px`}},
        model.isMessage(i) ? '↻ ' : '', word ?? named(type, 60), took));
    }
    row.setAttribute('aria-label', this.words(i, type));
    return row;
  },

  words(i, type) {
    const name = (actor) => (actor >= 0 ? clean(this.model.actors[actor].name, 40) : 'nobody');
    const ends = this.model.isMessage(i) ? ` from ${name(this.model.sender[i])} to ${name(this.model.receiver[i])}` : '';
    return `${moment(this.model.begin[i])}: ${kinds[this.model.kind[i]]} ${clean(type, 60)}${ends}`;
  },

  key(event) {
    const i = this.list[this.rows.at] ?? this.picked; // what is chosen may be no row here
    if (i < 0 || !['c', 'e'].includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return false;
    const to = event.key === 'c' ? this.model.rowCause(i) : this.model.firstEffect(i);
    if (to >= 0) go({event: this.model.id(to)});
    return true;
  },
};
