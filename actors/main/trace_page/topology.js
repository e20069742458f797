// The view of who talks with whom.

const topology = {
  rings: new Map(), // by process: keys of nodes in their order around the ring
  each: false, // every actor is a node, also where many have one name
  labelsMax: 30, // rates beside the busiest arrows

  // Who talks with whom in the window of time.
  measure(model) {
    const [from, to] = windowOf(model);
    const key = [from, to, this.each].join('|');
    if (this.of === model && this.key === key) return this.graph;
    this.of = model;
    this.key = key;
    this.seconds = Math.max((to - from) / 1e9, 1e-9);
    return (this.graph = graphOf(model, from, to, this.each));
  },

  render(model) {
    const [from, to] = windowOf(model);
    const graph = this.measure(model);
    const root = byId('topology');
    const placed = place(graph, (p) => model.processName(p), root.clientWidth / Math.max(200, root.clientHeight), this.rings);
    const scroll = [root.scrollLeft, root.scrollTop];
    const view = svg('svg', {
      viewBox: `-12 -12 ${placed.width + 24} ${placed.height + 24}`, role: 'group', 'aria-label': 'Actors and messages',
      preserveAspectRatio: 'xMinYMin meet',
    });
    const room = Math.max(320, root.clientWidth - 30);
    const tall = Math.max(240, root.clientHeight - 50);
    const scale = Math.min(1.25, Math.max(0.7, Math.min(room / (placed.width + 24), tall / (placed.height + 24))));
    view.style.width = `${(placed.width + 24) * scale}px`;
    view.style.height = `${(placed.height + 24) * scale}px`;
    view.append(arrowHead());
    for (const box of placed.boxes) view.append(this.box(box));
    const edges = graph.edges.filter((e) => e.from !== e.to);
    const taken = graph.nodes.map((n) => ({x: n.x + nodeWidth / 2, y: n.y + nodeHeight / 2, node: true}));
    const most = Math.max(1, ...edges.map((e) => e.count));
    for (const e of edges) view.append(this.edge(model, e, most));
    for (const n of graph.nodes) view.append(this.node(model, n));
    for (const e of edges.filter((one) => !this.quiet(one)).sort((a, b) => b.count - a.count).slice(0, this.labelsMax)) view.append(...[this.edgeLabel(e, taken)].flat());
    const kept = graph.edges.reduce((sum, e) => sum + e.count, 0);
    const head = h('p', {class: 'hint', id: 'topology-text'},
      `${plural(graph.nodes.length, 'node')}, ${plural(graph.edges.length, 'edge')}, ${plural(kept, 'message')} in ${duration(to - from)}`,
      graph.left > 0 ? `; ${plural(graph.left, 'less busy node')} left out` : '', '. Click a node or an arrow for its types. ', this.each || graph.nodes.some((n) => n.actors.length > 1 && !n.outside) ? this.eachBox() : '');
    root.replaceChildren(head, view);
    [root.scrollLeft, root.scrollTop] = scroll;
  },

  eachBox() {
    const box = h('input', {type: 'checkbox', id: 'each', onchange: () => { this.each = box.checked; render(); }});
    box.checked = this.each;
    return h('label', {}, box, ' every actor by itself');
  },

  rate(count) {
    const perSecond = count / this.seconds;
    return perSecond >= 100 ? `${grouped(Math.round(perSecond))}/s` : `${digits(perSecond)}/s`;
  },

  box(box) {
    return svg('g', {class: 'box'},
      svg('rect', {x: box.x, y: box.y, width: box.width, height: box.height, rx: 8}),
      svg('text', {x: box.x + 12, y: box.y + 20}, clean(box.name, Math.max(12, Math.floor(box.width / 9)))));
  },

  node(model, n) {
    const many = n.actors.length > 1 && !n.outside ? ` ×${n.actors.length}` : clean(n.number, 12);
    const own = this.graph.edges.find((e) => e.from === n && e.to === n);
    const second = n.outside ? `${grouped(n.out)} sent`
      : `${grouped(n.handled)} handled${n.busy > 0 ? ` · ${percent(n.busy, this.seconds * 1e9)}` : ''}`;
    const choose = () => go({node: n.key, event: ''});
    return svg('g', {
      class: `node${n.outside ? ' outside' : ''}${state.node === n.key ? ' chosen' : ''}`, tabindex: 0, role: 'button',
      'aria-label': `actor ${clean(n.name, 60)}${many} of ${clean(model.processName(n.process), 40)}: ${second}`,
      data: {key: n.key, kind: 'node'}, onclick: choose, onkeydown: pressed(choose),
    },
    svg('title', {}, `${clean(n.name, 200)}${many}: ${second}${own ? `, ${plural(own.count, 'message')} to itself` : ''}`),
    svg('rect', {x: n.x, y: n.y, width: nodeWidth, height: nodeHeight, rx: 6}),
    svg('text', {class: 'label', x: n.x + nodeWidth / 2, y: n.y + 17}, clean(n.name, 17 - many.length) + many),
    svg('text', {class: 'sub', x: n.x + nodeWidth / 2, y: n.y + 32}, second));
  },

  // Whether another node is chosen, with which the edge has nothing to do.
  quiet(e) {
    return this.graph.nodes.some((n) => n.key === state.node) && e.from.key !== state.node && e.to.key !== state.node;
  },

  edge(model, e, most) {
    const choose = () => go({node: e.key, event: ''});
    const quiet = this.quiet(e);
    const types = [...e.types.values()].sort((a, b) => b.count - a.count);
    const shown = types.slice(0, 8).map((t) => `${clean(typeText(model, t.type), 60)}: ${grouped(t.count)}`);
    if (types.length > 8) shown.push(`and ${types.length - 8} more types`);
    const title = `${clean(e.from.name, 60)} → ${clean(e.to.name, 60)}: ${plural(e.count, 'message')}, ${this.rate(e.count)}`;
    const path = curve(e);
    return svg('g', {
      class: `edge${state.node === e.key ? ' chosen' : quiet ? ' quiet' : ''}`, tabindex: 0, role: 'button', 'aria-label': title,
      data: {key: e.key, kind: 'edge', count: e.count}, onclick: choose, onkeydown: pressed(choose),
    },
    svg('title', {}, [title, ...shown].join('\n')),
    svg('path', {class: 'touch', d: path.d}),
    svg('path', {class: 'line', d: path.d, 'stroke-width': (0.9 + 2.6 * (Math.log(e.count + 1) / Math.log(most + 1))).toFixed(2), 'marker-end': 'url(#arrow)'}));
  },

  // Along its curve, where no other label is.
  edgeLabel(e, taken) {
    const {at} = curve(e);
    let best = null;
    for (const t of [0.5, 0.4, 0.6, 0.32, 0.68, 0.25, 0.75, 0.18, 0.82]) {
      const p = at(t);
      if (taken.every((o) => Math.abs(o.x - p.x) > (o.node ? nodeWidth / 2 + 18 : 42) || Math.abs(o.y - p.y) > (o.node ? nodeHeight / 2 + 5 : 13))) {
        best = p;
        break;
      }
    }
    if (!best) return []; // its title and the panel have it
    taken.push(best);
    return svg('text', {class: 'count', x: best.x, y: best.y + 3.5, 'aria-hidden': 'true'}, this.rate(e.count));
  },

  // Beside the other views, too: the panel's links lead there.
  showChosen(model) {
    const graph = this.measure(model);
    const node = graph.nodes.find((n) => n.key === state.node);
    const edge = graph.edges.find((e) => e.key === state.node);
    if (node) details.showNode(model, node, graph, this);
    else if (edge) details.showEdge(model, edge, this);
    else details.say('What is chosen is not shown here: it has no messages in this window of time, or another name.');
  },
};

const pressed = (action) => (event) => {
  if (event.key !== 'Enter' && event.key !== ' ') return;
  event.preventDefault();
  action();
};

const arrowHead = () => svg('defs', {}, svg('marker', {
  id: 'arrow', viewBox: '0 0 8 8', refX: 7.5, refY: 4, markerWidth: 8, markerHeight: 8, orient: 'auto-start-reverse', markerUnits: 'userSpaceOnUse',
}, svg('path', {d: 'M0 0.5 8 4 0 7.5z'})));

// A bow from node to node, at whose other side the one back runs.
function curve(e) {
  const center = (n) => ({x: n.x + nodeWidth / 2, y: n.y + nodeHeight / 2});
  const a = center(e.from), b = center(e.to);
  const far = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const bow = 12 + far * 0.05;
  const c = {x: (a.x + b.x) / 2 - ((b.y - a.y) / far) * bow, y: (a.y + b.y) / 2 + ((b.x - a.x) / far) * bow};
  // Where the line to `to` leaves the node around `from`.
  const edge = (from, to) => {
    const dx = to.x - from.x, dy = to.y - from.y;
    const t = Math.min(nodeWidth / 2 / Math.abs(dx || 1e-9), nodeHeight / 2 / Math.abs(dy || 1e-9));
    return {x: from.x + dx * t, y: from.y + dy * t};
  };
  const p = edge(a, c), q = edge(b, c);
  const at = (t) => ({
    x: (1 - t) ** 2 * p.x + 2 * t * (1 - t) * c.x + t * t * q.x,
    y: (1 - t) ** 2 * p.y + 2 * t * (1 - t) * c.y + t * t * q.y,
  });
  return {d: `M${p.x.toFixed(1)} ${p.y.toFixed(1)}Q${c.x.toFixed(1)} ${c.y.toFixed(1)} ${q.x.toFixed(1)} ${q.y.toFixed(1)}`, at};
}
