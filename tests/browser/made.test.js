// The page with recordings made for one question each: what is chosen, kept and said. Run by skip_or_run.sh.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';

import { launch, watched } from './browser.js';
import { delivery, recording, sent, serve, span } from './made.js';

const own = 'http://page.test/';
const part = (name) => readFileSync(new URL(`../../actors/main/trace_page/${name}.js`, import.meta.url), 'utf8');

let browser;
before(async () => { browser = await launch(process.env.BROWSER_PROGRAM); });
after(async () => { await browser?.close(); });

// given: a recording, or a function that makes the next one.
async function open(given, hash = '') {
  const { page, faults } = await watched(browser, own);
  page.setDefaultTimeout(15_000);
  const asked = { times: 0 };
  await serve(page, own, `${process.env.BROWSER_WORK}/served.html`, () => {
    asked.times++;
    return typeof given === 'function' ? given(asked.times) : given;
  });
  await page.goto(own + hash);
  const opened = () => page.waitForFunction(() => document.querySelector('[role=tab][aria-selected=true]'));
  const to = async (next) => {
    await page.evaluate((n) => { location.hash = n; }, next);
    await settled(page);
  };
  const done = async () => { assert.deepEqual(faults, []); await page.close(); };
  return { page, faults, asked, opened, to, done };
}

const settled = (page) => page.evaluate(() => new Promise((r) => requestAnimationFrame(() => setTimeout(r, 30))));
const inHash = (page, name) => page.evaluate((n) => new URLSearchParams(location.hash.slice(1)).get(n), name);
const focused = (page) => page.evaluate(() => document.activeElement.id || document.activeElement.dataset.role || document.activeElement.className || document.activeElement.tagName);
const event = (i, more = {}) => ({ from: 0, to: 1, name: 'a::ping', begin: 1000 * i, ...more });

// Two actors and their messages; `first` of the recording's events is the oldest one that is still there.
const talk = (count = 20, more = {}) => recording({ actors: ['left', 'right'], events: Array.from({ length: count }, (_, i) => event(i, { cause: i - 1 })), ...more });

test('a live page that is opened at an event or a request is held', async () => {
  for (const [hash, held] of [['#event=0.3&view=sequence', 'true'], ['#request=1&view=requests', 'true'], ['#view=sequence', 'false']]) {
    const { page, opened, done } = await open(talk(20, { live: true }), hash);
    await opened();
    assert.equal(await page.locator('#pause').getAttribute('aria-pressed'), held, hash);
    await done();
  }
});

test('a live page is held by what is newly chosen, and not by what was chosen before', async () => {
  const { page, opened, to, done } = await open(talk(20, { live: true }));
  const pressed = () => page.locator('#pause').getAttribute('aria-pressed');
  await opened();
  await to('view=sequence&event=0.3');
  assert.equal(await pressed(), 'true');
  await page.locator('#pause').click();
  await page.locator('#tab-topology').click();
  await settled(page);
  assert.equal(await pressed(), 'false');
  await to('view=sequence&event=0.4');
  assert.equal(await pressed(), 'true');
  await page.locator('#pause').click();
  await page.locator('#window-to').fill('400'); // a change, too
  await settled(page);
  assert.ok(await inHash(page, 'to'));
  assert.equal(await pressed(), 'true');
  await done();
});

test('a live page leaves the slider alone that somebody holds', async () => {
  const { page, asked, opened, done } = await open(talk(20, { live: true }));
  await opened();
  await page.evaluate(() => {
    const slider = document.getElementById('window-from');
    slider.focus();
    slider.value = 300;
  });
  const before = asked.times;
  while (asked.times <= before + 1) await page.waitForTimeout(100);
  assert.equal(await page.locator('#window-from').inputValue(), '300');
  await done();
});

test('a live page has one loop, however often it was paused', async () => {
  let wait = 0;
  const { page, asked, opened, done } = await open(async () => {
    await new Promise((r) => setTimeout(r, wait));
    return talk(20, { live: true });
  });
  await opened();
  wait = 700;
  const begun = asked.times;
  for (let i = 0; i < 6; i++) await page.locator('#pause').click(); // each Go on asks, and the answers are slow
  for (let n = 0; n < 1500 && asked.times < begun + 3; n++) await page.waitForTimeout(20);
  const [after, since] = [asked.times, performance.now()];
  assert.ok(after >= begun + 3, `${begun} to ${after}`);
  await page.waitForTimeout(3500); // one answer, 2 s, and the next
  for (let n = 0; n < 1500 && asked.times === after; n++) await page.waitForTimeout(20);
  const most = after + 1 + Math.floor((performance.now() - since) / 2000); // of three loops: 3 and more in 3.5 s
  assert.ok(asked.times > after && asked.times <= most, `${after} to ${asked.times}, and not ${most}`);
  await done();
});

test('what could not be fetched is asked for again; what is no recording is not', async () => {
  const again = await open((time) => (time < 2 ? 503 : talk()));
  await again.page.locator('#notice', { hasText: '503' }).waitFor();
  await again.opened();
  assert.equal(again.asked.times, 2);
  assert.match(again.faults.join(), /503/);
  await again.page.close();

  const never = await open({ godwit_trace_page: 2 });
  await never.page.locator('#notice', { hasText: 'cannot be shown' }).waitFor();
  await never.page.waitForTimeout(2500);
  assert.equal(never.asked.times, 1);
  await never.done();

  const broken = talk();
  broken.processes = null; // comes to light while drawing
  const drawn = await open(broken);
  await drawn.page.locator('#notice', { hasText: 'cannot be shown' }).waitFor();
  await drawn.done();

  const ends = await open((time) => (time < 2 ? talk(20, { live: true }) : { godwit_trace_page: 2 }));
  await ends.page.locator('#live-status', { hasText: 'cannot be shown' }).waitFor();
  assert.equal(await ends.page.locator('#pause').textContent(), 'Go on');
  await ends.done();
});

test('before there is a recording the window of time does nothing', async () => {
  let given;
  const { page, opened, done } = await open(() => new Promise((r) => { given = () => r(talk()); }));
  await page.locator('#window-to').fill('400');
  await page.locator('#window-all').click();
  const box = await page.locator('#timeline').boundingBox();
  await page.mouse.move(box.x + 50, box.y + 10);
  await page.mouse.down();
  await page.mouse.move(box.x + 200, box.y + 10);
  await page.mouse.up();
  given();
  await opened();
  await done();
});

test('a drag is of the first button, and ends when the browser takes it over', async () => {
  const { page, opened, done } = await open(talk());
  await opened();
  const box = await page.locator('#timeline').boundingBox();
  const drag = async (button) => {
    await page.mouse.move(box.x + 50, box.y + 10);
    await page.mouse.down({ button });
    await page.mouse.move(box.x + 200, box.y + 10);
  };
  await drag('middle');
  await page.mouse.up({ button: 'middle' });
  await settled(page);
  assert.equal(await inHash(page, 'from'), null);
  await drag('left');
  await page.evaluate(() => document.getElementById('timeline').dispatchEvent(new PointerEvent('pointercancel')));
  await page.mouse.up();
  await settled(page);
  assert.equal(await inHash(page, 'from'), null);
  await drag('left');
  await page.mouse.up();
  await settled(page);
  assert.ok(await inHash(page, 'from'));
  await done();
});

test('a drag over the axis of a waterfall zooms, of the first button only', async () => {
  const events = Array.from({ length: 20 }, (_, i) => event(i, { cause: i - 1, request: '7' }));
  const { page, opened, done } = await open(recording({ actors: ['left', 'right'], events }), '#view=requests&request=7');
  await opened();
  const range = () => page.locator('.axis').getAttribute('data-range');
  const whole = await range();
  const box = await page.locator('.axis').boundingBox();
  for (const [button, taken] of [['middle', false], ['left', true], ['left', false]]) {
    await page.locator('.waterfall-head button', { hasText: 'Fit' }).click();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 8);
    await page.mouse.down({ button });
    await page.mouse.move(box.x + box.width * 0.6, box.y + 8);
    if (taken) await page.locator('.axis').dispatchEvent('pointercancel');
    await page.mouse.up({ button });
    assert.equal(await range() === whole, button === 'middle' || taken);
    assert.equal(await page.locator('.drag').count(), 0);
  }
  await done();
});

test('the chosen node is in the address, and its panel follows the window', async () => {
  const { page, opened, to, done } = await open(talk());
  await opened();
  await page.locator('#topology [data-kind=node]', { hasText: 'right' }).click();
  await page.locator('#details h3', { hasText: 'In' }).waitFor();
  const node = await inHash(page, 'node');
  assert.equal(node, '0:2');
  const count = () => page.locator('#details .types tbody td:nth-child(2)').first().textContent();
  assert.equal(await count(), '20');
  await page.locator('#window-to').fill('500');
  await settled(page);
  assert.equal(await count(), '10');
  assert.match(await page.locator('#details a', { hasText: 'its messages' }).getAttribute('href'), /to=/);
  await page.reload();
  await opened();
  assert.equal(await count(), '10');
  await page.goBack();
  await settled(page);
  assert.equal(await count(), '20');
  await to(`view=sequence&node=${node}&event=0.3`);
  assert.match(await page.locator('#details th').first().textContent(), /event/);
  await to('node=0:2>0:1');
  assert.match(await page.locator('#details').textContent(), /no messages in this window/);
  await page.locator('#topology [data-kind=edge]').dispatchEvent('click');
  await settled(page);
  assert.equal(await inHash(page, 'node'), '0:1>0:2');
  await done();
});

// left asks right, which is in another process: there is a sent event between the two deliveries.
const across = () => recording({
  actors: ['left', 'middle', [1, '9', 'right']],
  events: [
    { from: 0, to: 1, name: 'a::first', begin: 0 },
    { from: 1, to: 2, name: 'a::second', kind: sent, cause: 0, begin: 1000 },
    { process: 1, from: 1, to: 2, name: 'a::second', cause: 1, begin: 2000 },
    { process: 1, from: 2, to: 2, name: 'a::third', cause: 2, begin: 3000 },
  ],
});

test('c and e and the marks go across the border of a process', async () => {
  const { page, opened, to, done } = await open(across(), '#view=sequence&event=0.1');
  await opened();
  const mark = (kind) => page.locator(`.messages .row.${kind}`).evaluateAll((all) => all.map((r) => r.dataset.event));
  assert.deepEqual(await mark('is-effect'), ['1.3']);
  await page.locator('.messages').focus();
  await page.keyboard.press('e');
  await page.waitForFunction(() => location.hash.includes('event=1.3'));
  assert.deepEqual(await mark('is-cause'), ['0.1']);
  assert.deepEqual(await mark('is-effect'), ['1.4']);
  await page.keyboard.press('c');
  await page.waitForFunction(() => location.hash.includes('event=0.1'));
  await to('view=sequence&event=0.2'); // what was sent is no row
  await page.locator('.messages').focus();
  await page.keyboard.press('e');
  await page.waitForFunction(() => location.hash.includes('event=1.3'));
  await done();
});

test('keys with Alt, Ctrl or Meta are the browser\'s', async () => {
  const { page, opened, done } = await open(across(), '#view=sequence&event=1.3');
  await opened();
  const press = (where, key, held) => page.evaluate(([selector, k, h]) => {
    const pressed = new KeyboardEvent('keydown', { key: k, bubbles: true, cancelable: true, ...h });
    document.querySelector(selector).dispatchEvent(pressed);
    return pressed.defaultPrevented;
  }, [where, key, held]);
  for (const held of [{ altKey: true }, { ctrlKey: true }, { metaKey: true }]) {
    await press('#tab-sequence', 'ArrowLeft', held);
    assert.equal(await press('.messages', 'c', held), false);
    await settled(page);
    assert.equal(await inHash(page, 'view'), 'sequence');
    assert.equal(await inHash(page, 'event'), '1.3');
  }
  await press('#tab-sequence', 'ArrowLeft', {});
  await page.waitForFunction(() => location.hash.includes('view=requests'));
  await done();
});

test('times that are none are left out, and minutes have no 60 seconds', async () => {
  const { page, opened, done } = await open(talk(), '#view=sequence&from=-&to=-');
  await opened();
  assert.ok(!(await page.locator('body').innerText()).includes('NaN'));
  await done();
  const { duration } = new Function(`${part('units')}; return {duration};`)();
  assert.deepEqual([119.97e9, 60e9, -61.5e9, 59.5e9].map(duration), ['1 min 59 s', '1 min 0 s', '-1 min 1 s', '59.5 s']);
});

test('a link in the head of the sequence is followed with Enter', async () => {
  const { page, opened, done } = await open(talk(), '#view=sequence&event=0.3');
  await opened();
  await page.locator('.lane').first().focus();
  await page.keyboard.press('Enter');
  await settled(page);
  assert.equal(await inHash(page, 'actor'), '0:1');
  await done();
});

test('the cursor of the arrow keys outlives a redraw', async () => {
  const { page, asked, opened, done } = await open(talk(20, { live: true }), '#view=sequence');
  await opened();
  await page.locator('.messages').focus();
  for (let i = 0; i < 3; i++) await page.keyboard.press('ArrowDown');
  const at = () => page.locator('.messages .row[aria-selected=true]').getAttribute('data-event');
  assert.equal(await at(), '0.3');
  const before = asked.times;
  while (asked.times <= before) await page.waitForTimeout(100);
  await settled(page);
  assert.equal(await at(), '0.3');
  await page.keyboard.press('ArrowDown');
  assert.equal(await at(), '0.4');
  await done();
});

test('the window of time is for a request\'s sequence, too, and only filters that filter are shown', async () => {
  const events = Array.from({ length: 20 }, (_, i) => event(i, { cause: i - 1, request: '7' }));
  const { page, opened, to, done } = await open(recording({ actors: ['left', 'right'], events }), '#view=sequence&request=7');
  await opened();
  const chips = () => page.locator('.chip').count();
  assert.equal(await page.locator('.messages .row').count(), 20);
  await to('view=sequence&request=7&to=9500&type=a::ping&actor=0:1');
  assert.equal(await page.locator('.messages .row').count(), 10);
  assert.equal(await chips(), 3);
  await page.locator('#tab-requests').click();
  await settled(page);
  assert.equal(await chips(), 1);
  await page.locator('#tab-topology').click();
  await settled(page);
  assert.ok(await page.locator('#filters').isHidden());
  await done();
});

test('a jump to a message goes to its lanes, too', async () => {
  const actors = Array.from({ length: 30 }, (_, i) => `actor_${i}`);
  const events = Array.from({ length: 29 }, (_, i) => event(i, { from: i, to: i + 1 }));
  const { page, opened, to, done } = await open(recording({ actors, events }), '#view=sequence');
  await opened();
  const seen = () => page.locator('.messages .row[aria-selected=true] .arrow').evaluate((arrow) => {
    const [a, b] = [arrow.getBoundingClientRect(), document.querySelector('.messages').getBoundingClientRect()];
    return a.left >= b.left && a.right <= b.right;
  });
  for (const name of ['0.29', '0.1', '0.15']) {
    await to(`view=sequence&event=${name}`);
    assert.ok(await seen(), name);
  }
  await done();
});

test('requests that broke are told from those that did not', async () => {
  const http = (i, request, attributes) => ({ kind: span, name: 'http.request', request, begin: 1000 * i, attributes: { request, status: '200', outcome: 'complete', ...attributes } });
  const events = [http(0, '1', {}), http(1, '2', { outcome: 'disconnected' }), http(2, '3', { error: 'the instance failed' }), http(3, '4', { status: '503', error: 'x'.repeat(256) })];
  const { page, opened, to, done } = await open(recording({ actors: [], events }), '#view=requests');
  await opened();
  const bad = await page.locator('.request').evaluateAll((all) => all.map((r) => r.querySelector('.bad')?.textContent.trim() ?? ''));
  assert.deepEqual(bad, ['', 'disconnected', 'the instance failed', `503, ${'x'.repeat(25)}…`]);
  await to('view=requests&request=4');
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth));
  await to('view=requests&request=3');
  const told = page.locator('.waterfall-head .bad');
  assert.equal(await told.textContent(), 'the instance failed');
  assert.equal(await told.evaluate((e) => getComputedStyle(e).color), 'rgb(192, 57, 43)');
  await done();
});

test('long texts are shown on demand, and never turn their surroundings', async () => {
  const text = 'one\n\ttwo \u202egnp.exe \u2066 \u200f' + 'x'.repeat(5000);
  const events = [event(0, { text, attributes: { long: '\u202e' + 'y'.repeat(3000), short: 'z' } })];
  const { page, opened, done } = await open(recording({ actors: ['left', 'right'], events }), '#view=sequence&event=0.1');
  await opened();
  const content = page.locator('#details .content');
  assert.ok((await content.textContent()).startsWith('one\n\ttwo \ufffdgnp.exe \ufffd \ufffdx'));
  assert.equal((await content.textContent()).length, 4000);
  const value = page.locator('#details .attribute td').first();
  await value.locator('button').click();
  assert.equal(await value.textContent(), '\ufffd' + 'y'.repeat(3000));
  await page.locator('#details button').click();
  assert.equal((await content.textContent()).length, text.length);
  assert.ok((await focused(page)).includes('content'));
  await done();
});

test('the focus stays where it was when things are drawn anew', async () => {
  const events = Array.from({ length: 20 }, (_, i) => event(i, { cause: i - 1, request: '7' }));
  const { page, opened, to, done } = await open(recording({ actors: ['left', 'right'], events }), '#view=requests&request=7');
  await opened();
  await page.locator('#every').focus();
  await page.keyboard.press('Space');
  assert.equal(await focused(page), 'every');
  await to('view=sequence&request=7&type=a::ping&event=0.9');
  await page.locator('#details [data-role=cause]').focus();
  for (const next of ['0.8', '0.7']) {
    await page.keyboard.press('Enter');
    await page.waitForFunction((n) => location.hash.includes(`event=${n}`), next);
    await settled(page);
    assert.equal(await focused(page), 'cause');
  }
  await page.locator('.chip button').first().focus();
  await page.keyboard.press('Enter');
  await settled(page);
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'any type');
  await page.keyboard.press('Enter');
  await settled(page);
  assert.ok((await focused(page)).includes('messages'));
  await to('view=requests&request=7');
  await page.locator('.waterfall-head a', { hasText: 'sequence' }).focus();
  await page.keyboard.press('Enter');
  await settled(page);
  assert.ok((await focused(page)).includes('messages'));
  await done();
});

test('a hit that is shown already gets the focus at once, and no later one', async () => {
  const { page, opened, to, done } = await open(talk(), '#view=sequence&event=0.3');
  await opened();
  await page.locator('#search').fill('0.3');
  await page.keyboard.press('Enter');
  await settled(page);
  assert.ok((await focused(page)).includes('messages'));
  await page.locator('#tab-sequence').focus();
  await to('view=sequence&event=0.4');
  assert.equal(await focused(page), 'tab-sequence');
  await done();
});

test('what is read aloud of a live page are its states', async () => {
  const { page, asked, opened, done } = await open((time) => talk(20 + time, { live: true }));
  await opened();
  await page.evaluate(() => {
    window.said = [];
    new MutationObserver(() => window.said.push(document.getElementById('live-status').textContent))
      .observe(document.getElementById('live-status'), { childList: true, characterData: true, subtree: true });
  });
  const text = await page.locator('#live-text').textContent();
  await page.waitForFunction((before) => document.getElementById('live-text').textContent !== before, text);
  await page.locator('#pause').click();
  assert.deepEqual(await page.evaluate(() => window.said), ['paused']);
  await done();
});

test('of three million rows the last is reached, and each on the way', async () => {
  const page = await browser.newPage({ viewport: { width: 600, height: 500 } });
  await page.setContent('<style>.rows { position: relative; overflow: auto; height: 400px } .row { position: absolute }</style><body></body>');
  await page.addScriptTag({ content: part('dom') + part('rows') });
  await page.evaluate(() => {
    window.rows = new Rows({ name: 'r', label: 'l', height: 30, render: (i) => h('div', {}, String(i)), nameOf: String, choose() {} });
    document.body.append(rows.element);
    rows.show(3e6);
  });
  const whole = () => page.evaluate(() => {
    const [row, list] = [document.querySelector('.row[aria-selected=true]').getBoundingClientRect(), rows.element.getBoundingClientRect()];
    return row.top >= list.top - 10 && row.bottom <= list.bottom + 10 && rows.body.offsetHeight < 17.8e6;
  });
  for (const at of [2_999_999, 1_234_567, 1_234_568, 1_234_600, 0, 1]) {
    await page.evaluate((i) => rows.select(i), at);
    assert.ok(await whole(), String(at));
  }
  await page.evaluate(() => { rows.element.scrollTop = 1e9; });
  await settled(page);
  assert.equal(await page.locator('.row').last().textContent(), '2999999');
  await page.close();
});

test('neither a long name nor a crowd takes long', () => {
  const { shortType, ring } = new Function(`${part('units')}${part('graph')}; return {shortType, ring};`)();
  for (const [type, short] of [['a::b<c::d>', 'b<d>'], ['std::vector<ns::x, ns_2::y>', 'vector<x, y>'], ['plain', 'plain'], ['a::~b', '~b']])
    assert.equal(shortType(type), short);
  const began = performance.now();
  assert.equal(shortType('x'.repeat(200_000)).length, 200_000);
  const nodes = Array.from({ length: 40 }, (_, index) => ({ index, name: `n${index}`, outside: false }));
  const edges = nodes.flatMap((from) => nodes.filter((to) => to !== from).map((to) => ({ from, to, count: 1 + ((from.index * 7 + to.index * 13) % 50) })));
  assert.equal(new Set(ring(nodes, edges)).size, 40);
  assert.ok(performance.now() - began < 10_000, `${performance.now() - began} ms`);
});
