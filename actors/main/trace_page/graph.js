// Who sent what to whom in a window of time, and where to draw it.

const nodesMax = 160; // more than that nobody can read; the busiest are shown

const sameNameMax = 4; // actors of one name in one process that are shown one by one

// More of one name in a process are shown as one: short-lived ones (a migration's coordinators) would fill the page.
// {key, number} by which an actor is shown among these.
function grouping(model, actors, most = sameNameMax) {
  const count = new Map();
  const nameOf = (a) => `${a.process}~${a.name}`;
  for (const a of actors) count.set(nameOf(model.actors[a]), (count.get(nameOf(model.actors[a])) ?? 0) + 1);
  return (index) => {
    const a = model.actors[index];
    const same = count.get(nameOf(a));
    if (a.outside || same === 1) return {key: a.key, number: ''};
    return same > most ? {key: nameOf(a), number: ''} : {key: a.key, number: ` #${a.id}`};
  };
}

function graphOf(model, from, to, each) {
  const group = grouping(model, model.actors.keys(), each ? Infinity : sameNameMax);
  const nodes = new Map();
  const nodeOf = new Int32Array(model.actors.length).fill(-1);
  const list = [];
  const node = (actor) => {
    if (nodeOf[actor] >= 0) return list[nodeOf[actor]];
    const {process, name, outside} = model.actors[actor];
    const {key, number} = group(actor);
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
    const key = `${a.key}>${b.key}`; // and no number: the next recording of a live page counts others first
    if (!edges.has(key)) edges.set(key, {key, from: a, to: b, count: 0, bytes: 0, types: new Map()});
    const edge = edges.get(key);
    edge.count++;
    edge.bytes += model.bytes[i];
    const type = model.name[i] || -1 - model.message[i]; // timers and the like have no type
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

const nodeWidth = 148, nodeHeight = 40, boxPad = 18, boxHead = 26, boxGap = 84;

// Places of nodes and of the boxes of processes, for a page of this shape. The nodes of a process stand in a ring, so
// that arrows between them run through its middle and not below other nodes.
// `rings` keeps the orders around them: a live page is not to jump for as long as the same actors are there.
function place(graph, names, aspect, rings) {
  const boxes = [...new Set(graph.nodes.map((n) => n.process))].map((process) => {
    const own = graph.nodes.filter((n) => n.process === process);
    const kept = rings.get(process)?.map((key) => own.find((n) => n.key === key)) ?? [];
    const nodes = kept.length === own.length && kept.every(Boolean) ? kept : ring(own, graph.edges);
    rings.set(process, nodes.map((n) => n.key));
    const size = nodes.length > ringMax ? grid(nodes) : ellipse(nodes);
    for (const n of nodes) {
      n.x += boxPad;
      n.y += boxPad + boxHead;
    }
    return {process, name: names(process), nodes, width: size.width + 2 * boxPad, height: size.height + 2 * boxPad + boxHead};
  });
  boxes.sort((a, b) => b.nodes.length - a.nodes.length || a.process - b.process);
  return flow(boxes, aspect);
}

const ringMax = 40;

function ellipse(nodes) {
  const n = nodes.length;
  const rx = n < 2 ? 0 : n === 2 ? 0 : Math.max(130, n * 29);
  const ry = n < 2 ? 0 : n === 2 ? 46 : Math.max(62, n * 17);
  nodes.forEach((node, i) => {
    const angle = n === 2 ? Math.PI * (i - 0.5) : Math.PI + (2 * Math.PI * i) / n;
    node.x = rx + rx * Math.cos(angle);
    node.y = ry + ry * Math.sin(angle);
  });
  // Seven on a ring do not reach its right end.
  const left = Math.min(...nodes.map((m) => m.x)), top = Math.min(...nodes.map((m) => m.y));
  for (const node of nodes) {
    node.x -= left;
    node.y -= top;
  }
  return {width: Math.max(...nodes.map((m) => m.x)) + nodeWidth, height: Math.max(...nodes.map((m) => m.y)) + nodeHeight};
}

function grid(nodes) {
  const columns = Math.ceil(Math.sqrt(nodes.length / 2));
  nodes.forEach((n, i) => {
    n.x = (i % columns) * (nodeWidth + 40);
    n.y = Math.floor(i / columns) * (nodeHeight + 40);
  });
  return {width: columns * (nodeWidth + 40) - 40, height: Math.ceil(nodes.length / columns) * (nodeHeight + 40) - 40};
}

// An order around the ring in which those who exchange most stand near each other: two are swapped for as long as that
// helps. The outside comes first, at the left.
function ring(nodes, edges) {
  const order = [...nodes].sort((a, b) => b.outside - a.outside || (a.name < b.name ? -1 : a.name > b.name ? 1 : a.index - b.index));
  const n = order.length;
  if (n > ringMax) return order;
  const at = new Map(order.map((node, i) => [node, i]));
  const peers = new Map(order.map((node) => [node, []]));
  for (const {from, to, count} of edges) {
    if (!at.has(from) || !at.has(to) || from === to) continue;
    peers.get(from).push([to, Math.log(1 + count)]);
    peers.get(to).push([from, Math.log(1 + count)]);
  }
  const length = (node) => peers.get(node).reduce((sum, [peer, weight]) => {
    const apart = Math.abs(at.get(node) - at.get(peer));
    return sum + weight * Math.min(apart, n - apart);
  }, 0);
  const swap = (i, j) => {
    [order[i], order[j]] = [order[j], order[i]];
    at.set(order[i], i);
    at.set(order[j], j);
  };
  for (let round = 0, better = true; better && round < 6; round++) {
    better = false;
    for (let i = order[0]?.outside ? 1 : 0; i < n; i++)
      for (let j = i + 1; j < n; j++) {
        const both = () => length(order[i]) + length(order[j]); // nothing changes for the others
        const before = both();
        swap(i, j);
        if (both() < before - 1e-9) better = true;
        else swap(i, j);
      }
  }
  return order;
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
  const [left, top] = below ? [0, main.height + 60] : [main.width + boxGap, 0];
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
