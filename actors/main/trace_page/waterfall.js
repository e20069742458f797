// One request: where its time went, and the bars of its causal path.

const waterfall = {
  every: false, // all events about the request, and not only its path
  request: '',

  make(root) {
    this.head = h('div', {class: 'waterfall-head'});
    this.axis = h('div', {class: 'axis', onpointerdown: (event) => this.drag(event), title: 'Drag to zoom into a part'});
    this.rows = new Rows({
      name: 'bar', label: 'Causal path of the request', height: 22, class: 'bars', head: this.axis, render: (i) => this.row(i),
      nameOf: (i) => this.model.id(this.list[i]), choose: (event) => go({event}), keys: (event) => this.key(event),
    });
    this.rows.element.addEventListener('wheel', (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.timeAt(event.clientX));
    }, {passive: false});
    root.append(this.head, this.rows.element);
  },

  render(model) {
    this.model = model;
    const entry = state.request && requestOf(model, state.request);
    this.rows.element.hidden = !entry;
    if (!entry) {
      this.head.replaceChildren(h('p', {class: 'hint'}, !state.request ? 'Choose a request.' : `Nothing of request ${clean(state.request, 40)} is recorded here.`));
      return;
    }
    const path = causalPath(model, entry);
    const onPath = new Set(path.events);
    this.steps = new Map();
    for (const step of path.steps) {
      if (step.what < 0) continue;
      onPath.add(step.what);
      this.steps.set(step.what, [...(this.steps.get(step.what) ?? []), step]);
    }
    const all = new Set([...onPath, ...(entry.http >= 0 ? [entry.http] : []), ...(this.every ? eventsOf(model, entry) : [])]);
    this.list = [...all].filter((i) => this.every || !model.isShadow(i)).sort((a, b) => (b === entry.http) - (a === entry.http) || model.queued[a] - model.queued[b] || model.begin[a] - model.begin[b] || a - b);
    this.onPath = onPath;
    this.full = [entry.first, Math.max(entry.first + 1, entry.last)];
    if (this.request !== state.request || this.model !== this.zoomedIn) {
      if (this.request !== state.request) {
        this.rows.element.scrollTop = 0;
        this.rows.cursor = '';
      }
      this.range = [...this.full];
    }
    this.request = state.request;
    this.zoomedIn = model;
    this.drawHead(model, entry, path);
    this.drawAxis();
    this.rows.at = this.list.indexOf(model.find(state.event || this.rows.cursor));
    this.rows.show(this.list.length);
  },

  drawHead(model, entry, path) {
    const total = Object.values(path.parts).reduce((a, b) => a + b, 0);
    const parts = partNames.filter((p) => path.parts[p] > 0);
    const every = h('input', {type: 'checkbox', id: 'every', onchange: (event) => { this.every = event.target.checked; render(); }});
    every.checked = this.every;
    const button = (text, label, action) => h('button', {'aria-label': label, title: label, onclick: action}, text);
    this.head.replaceChildren(
      h('h2', {}, 'Request ', named(entry.name, 40), ` · ${duration(total)}`, entry.status ? [' · ', named(entry.status, 20)] : '', ' · ', link('sequence', {view: 'sequence', type: '', actor: '', event: ''}), entry.client ? [' · ', h('small', {}, named(entry.client, 60))] : ''),
      entry.broken ? h('p', {class: 'bad'}, named(entry.broken, 400)) : '',
      h('div', {class: 'parts', role: 'img', 'aria-label': parts.map((p) => `${p} ${percent(path.parts[p], total)}`).join(', ')},
        parts.map((p) => h('span', {class: `part ${p}`, style: {width: `${(100 * path.parts[p]) / total}%`}, title: `${p}: ${duration(path.parts[p])}`, data: {part: p, ns: path.parts[p]}}))),
      h('p', {class: 'legend'}, parts.map((p) => h('span', {}, h('i', {class: p}), `${p} ${duration(path.parts[p])} (${percent(path.parts[p], total)})`))),
      h('p', {class: 'bar'}, h('label', {for: 'every'}, every, ` all ${plural(eventsOf(model, entry).length, 'event')} about it`),
        ` · its path has ${plural(path.events.length, 'event')}${path.whole ? '' : '; causes are missing'}`, ' ',
        button('−', 'Zoom out', () => this.zoom(1.6)), button('+', 'Zoom in', () => this.zoom(1 / 1.6)), button('Fit', 'Show the whole request', () => this.setRange(...this.full))));
  },

  // The part of a row that is time, in pixels of the row.
  track() {
    const width = this.rows.element.clientWidth;
    const left = Math.min(260, width * 0.36);
    return {left, width: Math.max(50, width - left - 76)};
  },

  at(time) {
    const [a, b] = this.range;
    const {left, width} = this.track();
    return left + Math.max(-1, Math.min(2, (time - a) / (b - a))) * width;
  },

  timeAt(clientX) {
    const {left, width} = this.track();
    const x = clientX - this.rows.element.getBoundingClientRect().left - left;
    return this.range[0] + (Math.max(0, Math.min(width, x)) / width) * (this.range[1] - this.range[0]);
  },

  row(i) {
    const model = this.model;
    const e = this.list[i];
    const {left, width} = this.track();
    const what = category(model, e);
    const actor = model.kind[e] === kind.span || model.kind[e] === kind.note ? model.sender[e] : model.receiver[e];
    const whose = actor >= 0 ? model.actors[actor].name : model.processName(model.process[e]);
    const bar = (className, from, to, faint) => {
      if (to < this.range[0] || from > this.range[1]) return [];
      const x = Math.max(this.at(from), left);
      const end = Math.min(this.at(to), left + width);
      return h('span', {class: `part ${className}${faint ? ' faint' : ''}`, style: {left: `${x}px`, width: `${Math.max(2, end - x)}px`}});
    };
    const length = model.end_[e] - model.queued[e];
    const steps = what === 'http' ? [] : this.steps.get(e) ?? [];
    const faint = steps.length > 0;
    return h('div', {
      class: this.onPath.has(e) ? 'on-path' : 'off-path',
      title: `${clean(model.typeOf(e), 200)} · ${clean(whose, 100)}: queued ${duration(model.begin[e] - model.queued[e])}, took ${duration(model.end_[e] - model.begin[e])}`,
    },
    h('span', {class: 'bar-label', style: {width: `${left - 8}px`}}, named(model.typeOf(e), 60), h('small', {}, ' ', named(whose, 40))),
    model.kind[e] === kind.delivery ? bar('queueing', model.queued[e], model.begin[e], faint) : [],
    bar(what, model.begin[e], model.end_[e], faint),
    steps.map((s) => bar(s.how, s.begin, s.end, false)),
    h('span', {class: 'bar-length', style: {left: `${left + width + 6}px`}}, length > 0 ? duration(length) : ''));
  },

  drawAxis() {
    const {left, width} = this.track();
    const [a, b] = this.range;
    const step = tickStep(b - a, Math.max(2, width / 110));
    const ticks = [];
    for (let t = Math.ceil((a - this.full[0]) / step) * step; t <= b - this.full[0]; t += step) {
      const x = left + ((t + this.full[0] - a) / (b - a)) * width;
      ticks.push(h('span', {class: 'tick', style: {left: `${x}px`}}, t === 0 ? '0' : `+${duration(t)}`));
    }
    this.axis.replaceChildren(...ticks);
    this.axis.dataset.range = `${Math.round(a)} ${Math.round(b)}`;
  },

  setRange(a, b) {
    const least = 100; // ns
    const [from, to] = this.full;
    const length = Math.min(to - from, Math.max(least, b - a));
    const start = Math.max(from, Math.min(to - length, a));
    this.range = [start, start + length];
    this.drawAxis();
    this.rows.draw();
  },

  zoom(factor, around = (this.range[0] + this.range[1]) / 2) {
    const [a, b] = this.range;
    this.setRange(around - (around - a) * factor, around + (b - around) * factor);
  },

  drag(event) {
    if (event.button !== 0 || !event.isPrimary) return;
    const from = this.timeAt(event.clientX);
    const start = event.clientX;
    const mark = h('span', {class: 'drag'});
    this.axis.append(mark);
    drag(this.axis, event, (e) => {
      const [x, y] = [this.at(from), this.at(this.timeAt(e.clientX))].sort((p, q) => p - q);
      Object.assign(mark.style, {left: `${x}px`, width: `${y - x}px`});
    }, (e) => {
      mark.remove();
      if (!e || Math.abs(e.clientX - start) <= 4) return;
      const to = this.timeAt(e.clientX);
      this.setRange(Math.min(from, to), Math.max(from, to));
    });
  },

  key(event) {
    const shift = (this.range?.[1] - this.range?.[0]) * 0.2;
    const action = {
      '+': () => this.zoom(1 / 1.6), '=': () => this.zoom(1 / 1.6), '-': () => this.zoom(1.6), 0: () => this.setRange(...this.full),
      ArrowLeft: () => this.setRange(this.range[0] - shift, this.range[1] - shift),
      ArrowRight: () => this.setRange(this.range[0] + shift, this.range[1] + shift),
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return false;
    action();
    return true;
  },
};
