// Who sent what to whom in a window of time, and where to draw it.

const nodesMax = 160; // more than that nobody can read; the busiest are shown

const sameNameMax = 4; // actors of one name in one process that are nodes of their own

// More actors of one name in a process are one node: short-lived ones (a migration's coordinators) would fill the page.
function graphOf(model, from, to) {
  const named = new Map();
  for (const a of model.actors) named.set(`${a.process}/${a.name}`, (named.get(`${a.process}/${a.name}`) ?? 0) + 1);
  const nodes = new Map();
  const nodeOf = new Int32Array(model.actors.length).fill(-1);
  const list = [];
  const node = (actor) => {
    if (nodeOf[actor] >= 0) return list[nodeOf[actor]];
    const {process, name, outside} = model.actors[actor];
    const same = named.get(`${process}/${name}`);
    const key = outside ? `${process}/` : same > sameNameMax ? `${process}/${name}` : `${process}:${model.actors[actor].id}`;
    const number = same > 1 && same <= sameNameMax && !outside ? ` #${model.actors[actor].id}` : '';
    if (!nodes.has(key)) {
      nodes.set(key, list.length);
      list.push({key, process, name, number, outside, actors: [], handled: 0, busy: 0, queueing: 0, in: 0, out: 0, index: list.length});
    }
    nodeOf[actor] = nodes.get(key);
    list[nodeOf[actor]].actors.push(actor);
    return list[nodeOf[actor]];
  };
  const edges = new Map();
  for (let i = 0; i < model.count; i++) {
    if (model.begin[i] < from || model.begin[i] > to) continue;
    if (model.kind[i] === kind.spawned && model.receiver[i] >= 0) node(model.receiver[i]);
    if (!model.isMessage(i) || model.sender[i] < 0 || model.receiver[i] < 0 || model.isShadow(i)) continue;
    const a = node(model.sender[i]);
    const b = node(model.receiver[i]);
    a.out++;
    b.in++;
    const key = `${a.index}>${b.index}`;
    if (!edges.has(key)) edges.set(key, {key, from: a, to: b, count: 0, asked: 0, bytes: 0, types: new Map()});
    const edge = edges.get(key);
    edge.count++;
    edge.bytes += model.bytes[i];
    if (model.message[i] === messageKind.request) edge.asked++;
    const type = model.name[i];
    const counted = edge.types.get(type) ?? {type, count: 0, queueing: 0, queueingMax: 0, delivered: 0};
    counted.count++;
    if (model.kind[i] === kind.delivery) {
      const waited = model.begin[i] - model.queued[i];
      counted.delivered++;
      counted.queueing += waited;
      counted.queueingMax = Math.max(counted.queueingMax, waited);
      b.handled++;
      b.busy += model.end_[i] - model.begin[i];
      b.queueing += waited;
    }
    edge.types.set(type, counted);
  }
  return cutTo(nodesMax, {nodes: list, edges: [...edges.values()], left: 0});
}

function cutTo(most, graph) {
  if (graph.nodes.length <= most) return graph;
  const kept = new Set([...graph.nodes].sort((a, b) => b.in + b.out - a.in - a.out).slice(0, most));
  return {
    nodes: graph.nodes.filter((n) => kept.has(n)),
    edges: graph.edges.filter((e) => kept.has(e.from) && kept.has(e.to)),
    left: graph.nodes.length - most,
  };
}

// Layers from left to right by who asks whom: the strongest pairs first, leaving out what would close a circle.
function layersOf(graph) {
  const net = new Map();
  for (const e of graph.edges) {
    if (e.from === e.to || e.from.outside || e.to.outside) continue;
    const weight = e.asked * 4 + (e.count - e.asked) * 0.01;
    const forward = e.from.index < e.to.index;
    const key = forward ? `${e.from.index}>${e.to.index}` : `${e.to.index}>${e.from.index}`;
    const pair = net.get(key) ?? {a: forward ? e.from : e.to, b: forward ? e.to : e.from, weight: 0};
    pair.weight += forward ? weight : -weight;
    net.set(key, pair);
  }
  const after = new Map(graph.nodes.map((n) => [n, new Set()]));
  const reaches = (from, to, seen = new Set()) => {
    if (from === to) return true;
    seen.add(from);
    for (const next of after.get(from)) if (!seen.has(next) && reaches(next, to, seen)) return true;
    return false;
  };
  for (const {a, b, weight} of [...net.values()].sort((x, y) => Math.abs(y.weight) - Math.abs(x.weight))) {
    const [left, right] = weight >= 0 ? [a, b] : [b, a];
    if (!reaches(right, left)) after.get(left).add(right);
  }
  const layer = new Map(graph.nodes.map((n) => [n, n.outside ? 0 : 1]));
  const busy = new Set();
  const push = (n) => {
    if (busy.has(n)) return;
    busy.add(n);
    for (const next of after.get(n)) {
      if (layer.get(next) > layer.get(n)) continue;
      layer.set(next, layer.get(n) + 1);
      push(next);
    }
    busy.delete(n);
  };
  for (const n of graph.nodes) if (!n.outside) push(n);
  return layer;
}

const nodeWidth = 148, nodeHeight = 40, gapX = 84, gapY = 32, boxPad = 18, boxHead = 26, columnMax = 10;

// Places of nodes and of the boxes of processes. The box with most nodes comes first, the others flow beside it.
function place(graph, names, aspect) {
  const layer = layersOf(graph);
  const boxes = [...new Set(graph.nodes.map((n) => n.process))].map((process) => {
    const nodes = graph.nodes.filter((n) => n.process === process);
    const columns = [];
    for (const l of [...new Set(nodes.map((n) => layer.get(n)))].sort((a, b) => a - b)) {
      const column = ordered(nodes.filter((n) => layer.get(n) === l), graph, columns.flat());
      while (column.length > 0) columns.push(column.splice(0, columnMax));
    }
    const tallest = Math.max(...columns.map((c) => c.length));
    const height = tallest * (nodeHeight + gapY) - gapY;
    columns.forEach((column, x) => {
      const free = height - (column.length * (nodeHeight + gapY) - gapY);
      column.forEach((n, y) => {
        n.x = boxPad + x * (nodeWidth + gapX);
        n.y = boxHead + boxPad + free / 2 + y * (nodeHeight + gapY);
      });
    });
    return {
      process, name: names(process), nodes,
      width: boxPad * 2 + columns.length * (nodeWidth + gapX) - gapX,
      height: boxHead + boxPad * 2 + height,
    };
  });
  boxes.sort((a, b) => b.nodes.length - a.nodes.length || a.process - b.process);
  return flow(boxes, aspect);
}

// Neighbours next to each other: by the mean place of those in the columns before.
function ordered(nodes, graph, before) {
  const rank = new Map(before.map((n) => [n, n.rank ?? 0]));
  const middle = (n) => {
    let sum = 0, count = 0;
    for (const e of graph.edges) {
      const other = e.from === n ? e.to : e.to === n ? e.from : undefined;
      if (other === undefined || !rank.has(other)) continue;
      sum += rank.get(other);
      count++;
    }
    return count > 0 ? sum / count : 1e6;
  };
  const out = [...nodes].sort((a, b) => middle(a) - middle(b) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  out.forEach((n, i) => { n.rank = i; });
  return out;
}

// The largest box first, the others beside or below it, in as many columns as fill a page of this shape best.
function flow(boxes, aspect) {
  const [main, ...others] = boxes;
  if (main === undefined) return {boxes, width: 100, height: 100};
  let best = {scale: -1};
  for (const below of [false, true])
    for (let columns = 1; columns <= Math.min(12, Math.max(1, others.length)); columns++) {
      const size = arrange(main, others, columns, below);
      const scale = Math.min(aspect / size.width, 1 / size.height);
      if (scale > best.scale * 1.0001) best = {scale, columns, below};
    }
  const size = arrange(main, others, best.columns, best.below);
  for (const box of boxes)
    for (const n of box.nodes) {
      n.x += box.x;
      n.y += box.y;
    }
  return {boxes, ...size};
}

function arrange(main, others, columns, below) {
  const margin = 28;
  main.x = main.y = 0;
  const [left, top] = below ? [0, main.height + 60] : [main.width + gapX, 0];
  let x = left, width = main.width, height = main.height;
  const perColumn = Math.ceil(others.length / columns);
  for (let at = 0; at < others.length; at += perColumn) {
    let y = top, widest = 0;
    for (const box of others.slice(at, at + perColumn)) {
      box.x = x;
      box.y = y;
      y += box.height + margin;
      widest = Math.max(widest, box.width);
      height = Math.max(height, box.y + box.height);
    }
    width = Math.max(width, x + widest);
    x += widest + margin;
  }
  if (others.length === 1 && !below) others[0].y = Math.max(0, (main.height - others[0].height) / 2);
  return {width, height};
}
