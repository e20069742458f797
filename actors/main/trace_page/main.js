// What is shown is in the address after '#', so that links, reloading and the browser's back button work.

const views = {topology, requests, sequence};
const empty = {view: 'topology', node: '', request: '', event: '', type: '', actor: '', from: '', to: ''};
const filtersOf = {topology: [], requests: ['request'], sequence: ['request', 'type', 'actor']};
let state = {...empty};

function hashOf(wanted) {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(wanted)) if (value !== '' && value !== empty[name]) out.set(name, value);
  return '#' + out;
}

function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  state = {...empty};
  for (const name of Object.keys(empty)) if (given.has(name)) state[name] = given.get(name);
  if (!Object.hasOwn(views, state.view)) state.view = 'topology';
  if (state.event) state.node = ''; // the panel has room for one
  for (const end of ['from', 'to']) if (!/^(-?\d{1,18})?$/.test(state[end])) state[end] = '';
}

// Whether the address changes, so that drawing is still to come.
function go(changes) {
  const hash = hashOf({...state, ...changes});
  const same = hash === location.hash || (hash === '#' && location.hash === '');
  if (same) render();
  else location.hash = hash;
  return !same;
}

function render() {
  if (current) keepFocus(() => draw(current));
}

function draw(model) {
  document.title = model.title ? `${clean(model.title, 60)} · godwit trace` : 'godwit trace';
  byId('title').textContent = clean(model.title, 120);
  showNotice(model);
  showFilters(model);
  timeline.render(model);
  for (const [name, view] of Object.entries(views)) {
    const chosen = name === state.view;
    byId(name).hidden = !chosen;
    byId(`tab-${name}`).setAttribute('aria-selected', String(chosen));
    byId(`tab-${name}`).tabIndex = chosen ? 0 : -1;
    if (chosen) view.render(model);
  }
  if (state.node) topology.showChosen(model);
  else details.showEvent(model, state.event);
}

function showNotice(model) {
  const lines = [];
  if (model.othersLeftOut > 0) lines.push(`${plural(model.othersLeftOut, 'event')} of ${grouped(model.eventsTotal)} left out as not about what --request names`);
  if (model.leftOut > 0) lines.push(`${plural(model.leftOut, 'older event')} of ${grouped(model.eventsTotal)} left out to keep this page quick`);
  if (model.textsLeftOut > 0) lines.push(`contents of ${plural(model.textsLeftOut, 'event')} left out for their size`);
  if (model.attributesLeftOut > 0) lines.push(`attributes of ${plural(model.attributesLeftOut, 'event')} left out for their size`);
  let lost = 0;
  for (let i = 0; i < model.count; i++) if (model.kind[i] === kind.gap) lost += Number(model.lost[i]);
  if (lost > 0) lines.push(`${plural(lost, 'event')} lost while recording`);
  lines.push(...model.remarks.slice(0, 5).map((r) => clean(r, 300)));
  if (model.remarks.length > 5) lines.push(`and ${model.remarks.length - 5} more remarks`);
  if (model.count === 0) lines.push('nothing was recorded');
  const box = byId('notice');
  box.setAttribute('aria-live', model.live ? 'off' : 'polite'); // its numbers change all the time
  box.hidden = lines.length === 0;
  if (box.textContent !== lines.join('')) box.replaceChildren(...lines.map((l) => h('div', {}, l)));
}

function showFilters(model) {
  const [actor] = [...model.actorsOf(state.actor)].map((a) => model.actors[a]);
  const text = {request: state.request, type: shortType(state.type), actor: state.actor && (actor ? actor.name : state.actor)};
  const shown = filtersOf[state.view].filter((name) => text[name]);
  byId('filters').hidden = shown.length === 0;
  byId('filters').replaceChildren(...shown.map((name) => h('span', {class: 'chip'}, `${name} `, named(text[name], 60),
    h('button', {'aria-label': `any ${name}`, onclick: () => go({[name]: ''})}, '×'))));
}

function tabKeys(event) {
  const tabs = Object.keys(views);
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (!step || event.altKey || event.ctrlKey || event.metaKey) return; // the browser's
  const next = tabs[(tabs.indexOf(state.view) + step + tabs.length) % tabs.length];
  go({view: next});
  byId(`tab-${next}`).focus();
}

function begin() {
  for (const tab of byId('tabs').children) tab.addEventListener('click', () => go({view: tab.dataset.view}));
  byId('tabs').addEventListener('keydown', tabKeys);
  requests.make();
  sequence.make();
  search.make();
  timeline.make();
  live.make();
  details.say(details.nothing);
  readHash();
  window.addEventListener('hashchange', () => {
    const before = state;
    readHash();
    if (holding.some((name) => state[name] && state[name] !== before[name])) live.hold();
    render();
  });
  let drawn = 0;
  window.addEventListener('resize', () => {
    cancelAnimationFrame(drawn);
    drawn = requestAnimationFrame(render);
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', render);
  live.start();
}

begin();
