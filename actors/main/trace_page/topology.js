// The view of who talks with whom.

const topology = {
  chosen: null, // key of a node or an edge

  render(model) {
    const [from, to] = windowOf(model);
    const graph = graphOf(model, from, to);
    this.graph = graph;
    this.seconds = Math.max((to - from) / 1e9, 1e-9);
    const root = byId('topology');
    const placed = place(graph, (p) => model.processName(p), root.clientWidth / Math.max(200, root.clientHeight));
    const scroll = [root.scrollLeft, root.scrollTop];
    const focused = document.activeElement?.dataset?.key;
    const view = svg('svg', {
      viewBox: `-12 -12 ${placed.width + 24} ${placed.height + 24}`, role: 'group', 'aria-label': 'Actors and messages',
      preserveAspectRatio: 'xMinYMin meet',
    });
    const room = Math.max(320, root.clientWidth - 30);
    const scale = Math.min(1.25, Math.max(0.7, room / (placed.width + 24)));
    view.style.width = `${(placed.width + 24) * scale}px`;
    view.style.height = `${(placed.height + 24) * scale}px`;
    view.append(arrowHead());
    for (const box of placed.boxes) view.append(this.box(box));
    const labels = graph.edges.length <= 60;
    const edges = graph.edges.filter((e) => e.from !== e.to);
    const taken = graph.nodes.map((n) => ({x: n.x + nodeWidth / 2, y: n.y + nodeHeight / 2, node: true}));
    const most = Math.max(1, ...edges.map((e) => e.count));
    for (const e of edges) view.append(this.edge(model, e, most));
    for (const n of graph.nodes) view.append(this.node(model, n));
    if (labels) for (const e of edges) view.append(...[this.edgeLabel(e, taken)].flat());
    const kept = graph.edges.reduce((sum, e) => sum + e.count, 0);
    const head = h('p', {class: 'hint', id: 'topology-text'},
      `${plural(graph.nodes.length, 'node')}, ${plural(graph.edges.length, 'edge')}, ${plural(kept, 'message')} in ${duration(to - from)}`,
      graph.left > 0 ? `; ${plural(graph.left, 'less busy node')} left out` : '', '. Click a node or an arrow for its types.');
    root.replaceChildren(head, view);
    [root.scrollLeft, root.scrollTop] = scroll;
    if (focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({preventScroll: true});
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
    const choose = () => this.choose(model, n.key);
    return svg('g', {
      class: `node${n.outside ? ' outside' : ''}${this.chosen === n.key ? ' chosen' : ''}`, tabindex: 0, role: 'button',
      'aria-label': `actor ${clean(n.name, 60)}${many} of ${clean(model.processName(n.process), 40)}: ${second}`,
      data: {key: n.key, kind: 'node'}, onclick: choose, onkeydown: pressed(choose),
    },
    svg('title', {}, `${clean(n.name, 200)}${many}: ${second}${own ? `, ${plural(own.count, 'message')} to itself` : ''}`),
    svg('rect', {x: n.x, y: n.y, width: nodeWidth, height: nodeHeight, rx: 6}),
    svg('text', {class: 'label', x: n.x + nodeWidth / 2, y: n.y + 17}, clean(n.name, 19 - many.length) + many),
    svg('text', {class: 'sub', x: n.x + nodeWidth / 2, y: n.y + 32}, second));
  },

  edge(model, e, most) {
    const choose = () => this.choose(model, e.key);
    const types = [...e.types.values()].sort((a, b) => b.count - a.count);
    const shown = types.slice(0, 8).map((t) => `${clean(model.shortNames[t.type], 60)}: ${grouped(t.count)}`);
    if (types.length > 8) shown.push(`and ${types.length - 8} more types`);
    const title = `${clean(e.from.name, 60)} → ${clean(e.to.name, 60)}: ${plural(e.count, 'message')}, ${this.rate(e.count)}`;
    const path = curve(e);
    return svg('g', {
      class: `edge${this.chosen === e.key ? ' chosen' : ''}`, tabindex: 0, role: 'button', 'aria-label': title,
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

  choose(model, key) {
    this.chosen = key;
    this.render(model);
    const node = this.graph.nodes.find((n) => n.key === key);
    const edge = this.graph.edges.find((e) => e.key === key);
    if (node) details.showNode(model, node, this.graph, this);
    else if (edge) details.showEdge(model, edge, this);
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

// From side to side of the two nodes; there and back are two curves beside each other.
function curve(e) {
  const {from: a, to: b} = e;
  const middle = (n) => n.y + nodeHeight / 2;
  const side = a.index < b.index ? 1 : -1;
  let p;
  if (Math.abs(a.x - b.x) < nodeWidth) { // one above the other: bulge to a side of its own
    const right = a.y < b.y;
    const x = right ? nodeWidth : 0;
    const bulge = (right ? 1 : -1) * (26 + Math.min(60, Math.abs(a.y - b.y) / 8));
    p = [[a.x + x, middle(a) + 6], [a.x + x + bulge, middle(a)], [b.x + x + bulge, middle(b)], [b.x + x, middle(b) - 6]];
  } else {
    const right = a.x < b.x;
    const shift = (right ? -1 : 1) * 7;
    const far = Math.min(90, Math.abs(b.x - a.x) / 3) * (right ? 1 : -1);
    const arch = Math.abs(b.x - a.x) > nodeWidth + gapX + 4 && Math.abs(a.y - b.y) < 4 ? side * (right ? -46 : 46) : 0;
    p = [
      [a.x + (right ? nodeWidth : 0), middle(a) + shift], [a.x + (right ? nodeWidth : 0) + far, middle(a) + shift + arch],
      [b.x + (right ? 0 : nodeWidth) - far, middle(b) + shift + arch], [b.x + (right ? 0 : nodeWidth), middle(b) + shift],
    ];
  }
  const at = (t) => {
    const w = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3];
    return {x: w.reduce((s, f, i) => s + f * p[i][0], 0), y: w.reduce((s, f, i) => s + f * p[i][1], 0)};
  };
  return {d: `M${p[0]}C${p[1]} ${p[2]} ${p[3]}`, at};
}
