// The panel beside the views: everything that is known of an event, a node or an edge.

const typeText = (model, type) => (type < 0 ? messageKinds[-1 - type] : model.shortNames[type]);

const details = {
  effectsMax: 50,
  contentMax: 4000,
  attributeMax: 1000,
  nothing: 'Nothing chosen. Click a node, an arrow, a bar or a message.',

  say(hint) {
    byId('details').replaceChildren(h('p', {class: 'hint'}, hint));
  },

  showEvent(model, id) {
    const i = model.find(id);
    if (i >= 0) this.show(model, i);
    else if (id) this.say(`Event ${clean(id, 40)} is not among the events here.`);
    else this.say(this.nothing);
  },

  show(model, i) {
    const rows = [];
    const row = (name, ...value) => rows.push(h('tr', {}, h('th', {scope: 'row'}, name), h('td', {}, ...value)));
    const isMessage = model.isMessage(i);
    row('event', model.id(i), ` · ${kinds[model.kind[i]]}`, isMessage ? ` · ${messageKinds[model.message[i]]}` : '');
    if (model.names[model.name[i]]) row(isMessage ? 'type' : 'name', link(model.names[model.name[i]], {view: 'sequence', type: model.names[model.name[i]], request: '', event: ''}, 300));
    if (model.sender[i] >= 0) row(isMessage ? 'from' : 'actor', this.actor(model, model.sender[i]));
    if (model.receiver[i] >= 0) row(isMessage ? 'to' : 'actor', this.actor(model, model.receiver[i]));
    row('process', named(model.processName(model.process[i])));
    if (model.request[i] !== 0) row('request', this.request(model, model.request[i]));
    row('began', moment(model.begin[i]));
    if (model.kind[i] === kind.delivery) row('queued for', duration(model.begin[i] - model.queued[i]), `, ${plural(model.depth[i], 'message')} before it`);
    if (model.kind[i] === kind.delivery || model.kind[i] === kind.span) row('took', duration(model.end_[i] - model.begin[i]));
    if (isMessage && model.bytes[i] > 0) row('size', bytes(model.bytes[i]));
    if (model.kind[i] === kind.gap) row('lost', plural(model.lost[i], 'event'));
    if (model.kind[i] === kind.delivery) row('thread', String(model.thread[i]));
    const flags = [model.flags[i] & 1 && 'from outside the actors', model.flags[i] & 2 && 'resumed a coroutine'].filter(Boolean);
    if (flags.length > 0) row('besides', flags.join(', '));
    this.links(model, i, row);
    const attributes = model.attributes.get(i) ?? [];
    for (let a = 0; a < attributes.length; a += 2) rows.push(h('tr', {class: 'attribute'}, h('th', {scope: 'row'}, named(attributes[a])), h('td', {}, this.beginning(h('bdi', {class: 'name'}), attributes[a + 1], this.attributeMax))));
    const title = h('h2', {}, named(model.typeOf(i)));
    byId('details').replaceChildren(title, h('table', {}, h('tbody', {}, rows)), this.content(model, i), this.effects(model, i));
  },

  links(model, i, row) {
    if (model.cause[i] >= 0) row('caused by', this.event(model, model.cause[i], 'cause'));
    else if (model.farCauses.has(i)) row('caused by', `${model.farCauses.get(i)}, which is not among the events here`);
    else row('caused by', model.flags[i] & 1 ? 'something outside' : 'nothing that was recorded');
    const other = model.other(i);
    if (other >= 0) row(model.message[i] === messageKind.request ? 'answered by' : 'answers', this.event(model, other, 'other'));
  },

  effects(model, i) {
    const all = model.effectsList(i);
    const shown = [...all.subarray(0, this.effectsMax)];
    return h('div', {}, h('h3', {}, plural(all.length, 'effect')),
      h('ul', {class: 'effects'}, shown.map((e) => h('li', {}, this.event(model, e, 'effect')))),
      all.length > shown.length ? h('p', {class: 'hint'}, `and ${grouped(all.length - shown.length)} more`) : []);
  },

  content(model, i) {
    const found = model.contents.get(i);
    if (!found) return '';
    const out = h('div', {}, h('h3', {}, `Content${found.size > 0 ? `, ${bytes(found.size)}` : ''}`),
      this.beginning(h('pre', {class: 'content', tabindex: 0, 'aria-label': 'Content'}), found.text, this.contentMax));
    if (found.actors.length > 0)
      out.append(h('p', {}, 'names ', found.actors.flatMap((a, n) => [n > 0 ? ', ' : '', a > 0 ? this.actor(model, a - 1) : '?'])));
    return out;
  },

  // Of a long text, and a button that shows the rest.
  beginning(element, text, most) {
    const whole = legible(text);
    element.textContent = whole.slice(0, most);
    if (whole.length <= most) return [element];
    const showAll = (event) => {
      element.textContent = whole;
      element.tabIndex = 0; // takes the focus of the button
      element.focus();
      event.target.remove();
    };
    return [element, h('button', {onclick: showAll}, `Show all ${grouped(whole.length)} characters`)];
  },

  event(model, i, role) {
    const text = h('span', {}, named(model.typeOf(i)), ` ${model.id(i)} at ${moment(model.begin[i])}`);
    const a = link(text, {event: model.id(i)});
    a.dataset.role = role;
    return a;
  },

  actor(model, index) {
    const actor = model.actors[index];
    return h('span', {}, link(actor.name, {view: 'sequence', actor: actor.key, request: '', event: ''}), actor.outside ? '' : ` #${clean(actor.id, 20)}`, model.processes.length > 1 ? h('span', {}, ' of ', named(model.processName(actor.process), 30)) : '');
  },

  request(model, number) {
    return h('span', {}, link(model.requestNames[number], {view: 'requests', request: model.requestNames[number], event: ''}), ' · ', link('its sequence', {view: 'sequence', request: model.requestNames[number], type: '', actor: '', event: ''}));
  },

  typesTable(model, types, source) {
    const list = [...types].sort((a, b) => b.count - a.count);
    return h('table', {class: 'types'},
      h('thead', {}, h('tr', {}, ['type', 'count', 'rate', 'queued'].map((t) => h('th', {scope: 'col'}, t)))),
      h('tbody', {}, list.slice(0, 60).map((t) => h('tr', {},
        h('td', {}, t.type < 0 ? typeText(model, t.type) : link(typeText(model, t.type), {view: 'sequence', type: model.names[t.type], request: '', event: '', actor: ''})),
        h('td', {}, grouped(t.count)), h('td', {}, source.rate(t.count)),
        h('td', {title: t.delivered > 0 ? `at most ${duration(t.queueingMax)}` : ''}, t.delivered > 0 ? duration(t.queueing / t.delivered) : '')))));
  },

  showNode(model, node, graph, source) {
    const merge = (edges) => {
      const all = new Map();
      for (const e of edges)
        for (const t of e.types.values()) {
          const sum = all.get(t.type) ?? {type: t.type, count: 0, queueing: 0, queueingMax: 0, delivered: 0};
          for (const field of ['count', 'queueing', 'delivered']) sum[field] += t[field];
          sum.queueingMax = Math.max(sum.queueingMax, t.queueingMax);
          all.set(t.type, sum);
        }
      return all.values();
    };
    byId('details').replaceChildren(
      h('h2', {}, named(node.name, 300)),
      h('p', {}, 'of ', named(model.processName(node.process)), node.actors.length > 1 ? ` · ${plural(node.actors.length, 'actor')} of this name` : ''),
      h('p', {}, `${plural(node.handled, 'message')} handled, ${duration(node.busy)} in all`, node.handled > 0 ? `; queued for ${duration(node.queueing / node.handled)} on average` : ''),
      h('p', {}, link('its messages', {view: 'sequence', actor: node.key, request: '', event: '', type: ''})),
      h('h3', {}, 'In'), this.typesTable(model, merge(graph.edges.filter((e) => e.to === node)), source),
      h('h3', {}, 'Out'), this.typesTable(model, merge(graph.edges.filter((e) => e.from === node)), source));
  },

  showEdge(model, edge, source) {
    byId('details').replaceChildren(
      h('h2', {}, named(edge.from.name), ' → ', named(edge.to.name)),
      h('p', {}, `${plural(edge.count, 'message')}, ${source.rate(edge.count)}, ${bytes(edge.bytes)}`),
      this.typesTable(model, edge.types.values(), source));
  },
};
