// The page of recordings, as people use it. Run by skip_or_run.sh.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';

import { launch, watched } from './browser.js';

const work = process.env.BROWSER_WORK;
const server = process.env.GODWIT_URL;
const expected = (name) => JSON.parse(readFileSync(`${work}/${name}.expected.json`, 'utf8'));
const file = (name, hash = '') => `file://${work}/${name}.html${hash}`;

let browser;
before(async () => { browser = await launch(process.env.BROWSER_PROGRAM); });
after(async () => { await browser?.close(); });

async function open(url, own = url.split('#')[0], options = {}) {
  const { page, faults } = await watched(browser, own, options);
  page.setDefaultTimeout(15_000);
  await page.goto(url);
  await page.waitForFunction(() => document.querySelector('[role=tab][aria-selected=true]'));
  return { page, faults, done: async () => { assert.deepEqual(faults, []); await page.close(); } };
}

const inHash = (page, name) => page.evaluate((n) => new URLSearchParams(location.hash.slice(1)).get(n), name);

test('the topology has the actors and the pairs of the recording', async () => {
  const { page, done } = await open(file('served'));
  const want = expected('served');
  assert.equal(await page.locator('#topology [data-kind=node]').count(), want.nodes);
  assert.equal(await page.locator('#topology [data-kind=edge]').count(), want.edges);
  const counts = await page.locator('#topology [data-kind=edge]').evaluateAll((all) => all.map((e) => Number(e.dataset.count)));
  assert.equal(counts.reduce((a, b) => a + b, 0), want.deliveries);

  const busiest = page.locator('#topology [data-kind=edge]').nth(counts.indexOf(Math.max(...counts)));
  await busiest.dispatchEvent('click');
  await page.locator('#details .types').waitFor();
  const inPanel = await page.locator('#details .types tbody td:nth-child(2)').allTextContents();
  assert.equal(inPanel.reduce((sum, n) => sum + Number(n.replaceAll(',', '')), 0), Math.max(...counts));
  await done();
});

test('a window of time holds fewer messages than the whole', async () => {
  const { page, done } = await open(file('served'));
  const all = await page.locator('#topology-text').textContent();
  await page.locator('#window-to').fill('400');
  await page.locator('#window-to').dispatchEvent('change');
  await page.waitForFunction((text) => document.getElementById('topology-text').textContent !== text, all);
  const messages = (text) => Number(text.match(/([\d,]+) messages/)[1].replaceAll(',', ''));
  assert.ok(messages(await page.locator('#topology-text').textContent()) < messages(all));
  await page.locator('#window-all').click();
  await page.waitForFunction((text) => document.getElementById('topology-text').textContent === text, all);
  await done();
});

test('a request has its waterfall, whose parts are its whole time', async () => {
  const { page, done } = await open(file('served'));
  await page.locator('#tab-requests').click();
  const want = expected('served');
  assert.equal(Number((await page.locator('#requests-text').textContent()).split(' ')[0]), want.requests);
  await page.locator('.request').first().click();
  await page.locator('.bars .row').first().waitFor();
  assert.ok(await page.locator('.bars .row').count() > 8);
  const widths = await page.locator('.parts .part').evaluateAll((all) => all.map((p) => parseFloat(p.style.width)));
  assert.ok(Math.abs(widths.reduce((a, b) => a + b, 0) - 100) < 0.01, `${widths}`);
  const took = await page.locator('.request[aria-selected=true] .request-length').textContent();
  assert.ok((await page.locator('.waterfall-head h2').textContent()).includes(` · ${took} · `), took); // the parts' sum
  assert.ok(!(await page.locator('.waterfall-head').textContent()).includes('missing'));
  for (const what of ['device', 'transfer', 'queueing', 'network'])
    assert.ok(await page.locator(`.legend .${what}`).count() === 1, what);

  const range = () => page.locator('.axis').getAttribute('data-range');
  const whole = await range();
  await page.locator('.bars').focus();
  await page.keyboard.press('+');
  const zoomed = await range();
  assert.notEqual(zoomed, whole);
  await page.keyboard.press('ArrowRight');
  assert.notEqual(await range(), zoomed);
  await page.keyboard.press('0');
  assert.equal(await range(), whole);

  await page.locator('.bars .row', { hasText: 'device.step' }).first().click();
  await page.locator('#details h2', { hasText: 'device.step' }).waitFor();
  assert.match(await page.locator('#details').textContent(), /decode_tokens/);
  await done();
});

for (const name of ['served', 'simulated'])
  test(`the waterfalls of the ${name} requests are those of godwit trace slow`, async () => {
    const told = JSON.parse(execFileSync(process.env.BROWSER_GODWIT, ['trace', 'slow', `${work}/${name}.gwt`, '--json', '--count', '1000']));
    assert.ok(told.length >= 8);
    const { page, done } = await open(file(name, '#view=requests'));
    for (const { request, spent_ns } of told) {
      await page.evaluate((r) => { location.hash = `view=requests&request=${r}`; }, request);
      await page.locator('.waterfall-head h2 .name').first().filter({ hasText: new RegExp(`^${request}$`) }).waitFor();
      const shown = await page.locator('.parts .part').evaluateAll((all) => Object.fromEntries(all.map((p) => [p.dataset.part, Number(p.dataset.ns)])));
      const wanted = Object.fromEntries(Object.entries(spent_ns).filter(([, ns]) => ns > 0));
      assert.deepEqual(shown, wanted, `request ${request}`);
    }
    await done();
  });

test('a page of one request has its whole waterfall, and says what it leaves out', async () => {
  const told = JSON.parse(execFileSync(process.env.BROWSER_GODWIT, ['trace', 'slow', `${work}/served.gwt`, '--json', '--count', '1000']));
  const { page, done } = await open(file('chosen', '#view=requests&request=3'));
  await page.locator('.parts .part').first().waitFor();
  const shown = await page.locator('.parts .part').evaluateAll((all) => Object.fromEntries(all.map((p) => [p.dataset.part, Number(p.dataset.ns)])));
  const { spent_ns } = told.find((one) => String(one.request) === '3');
  assert.deepEqual(shown, Object.fromEntries(Object.entries(spent_ns).filter(([, ns]) => ns > 0)));
  const notice = await page.locator('#notice').textContent();
  assert.match(notice, /left out as not about what --request names/);
  assert.ok(!notice.includes('older'), notice);
  await done();
});

test('a message in the sequence leads to its cause and effects', async () => {
  const { page, done } = await open(file('served', '#view=requests&request=1'));
  await page.locator('.waterfall-head a', { hasText: 'sequence' }).click();
  await page.locator('.messages .row').first().waitFor();
  const lanes = await page.locator('.lane .name').allTextContents();
  for (const actor of ['frontend', 'llumlet', 'instance', 'global_scheduler']) assert.ok(lanes.includes(actor), `${lanes}`);
  await page.locator('.messages .row', { hasText: 'submit_request' }).first().click();
  await page.locator('#details h2', { hasText: 'submit_request' }).waitFor();

  const { event, cause } = expected('served');
  await page.evaluate((id) => { location.hash = `view=sequence&request=1&event=${id}`; }, event);
  await page.locator('#details [data-role=cause]').click();
  await page.waitForFunction((id) => new URLSearchParams(location.hash.slice(1)).get('event') === id, cause);
  const effects = await page.locator('#details [data-role=effect]').allTextContents();
  assert.ok(effects.some((text) => text.includes(` ${event} `)), `${effects}`);
  await page.goBack();
  await page.waitForFunction((id) => new URLSearchParams(location.hash.slice(1)).get('event') === id, event);
  await done();
});

test('everything is reached with the keyboard', async () => {
  const { page, done } = await open(file('served'));
  await page.keyboard.press('/');
  await page.keyboard.type('dispatch_query');
  await page.keyboard.press('Enter');
  await page.locator('.messages .row', { hasText: 'dispatch_query' }).first().waitFor();
  assert.match(await inHash(page, 'type'), /dispatch_query$/);
  await page.keyboard.press('/');
  await page.keyboard.type('3');
  await page.keyboard.press('Enter');
  await page.locator('.waterfall-head h2', { hasText: 'Request 3' }).waitFor();
  await page.locator('#tab-requests').focus();
  await page.keyboard.press('ArrowRight');
  assert.equal(await inHash(page, 'view'), 'sequence');
  await page.locator('.messages').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.locator('#details h2').waitFor();
  const second = await inHash(page, 'event');
  assert.ok(second);
  await page.keyboard.press('c');
  await page.waitForFunction((id) => new URLSearchParams(location.hash.slice(1)).get('event') !== id, second);
  await page.locator('#tab-topology').click();
  await page.locator('#topology [data-kind=node]').nth(2).focus();
  await page.keyboard.press('Enter');
  await page.locator('#details h3', { hasText: 'Out' }).waitFor();
  await done();
});

test('search says when there is nothing, and finds actors', async () => {
  const { page, done } = await open(file('served'));
  await page.locator('#search').fill('no such thing');
  assert.equal(await page.locator('#hits').textContent(), 'Nothing found.');
  await page.locator('#search').fill('frontend');
  await page.locator('#hits li', { hasText: 'actor' }).first().click();
  assert.equal(await inHash(page, 'view'), 'sequence');
  assert.ok(await page.locator('.messages .row').count() > 3);
  await page.locator('.chip button').click();
  assert.equal(await inHash(page, 'actor'), null);
  await done();
});

test('hostile names and contents stay text', async () => {
  const { page, done } = await open(file('hostile'));
  const views = ['#view=topology', '#view=requests&request=1', '#view=sequence', '#view=sequence&request=1', '#view=sequence&event=0.3',
    '#view=<img src=x onerror=window.pwned=8>&event=%3Cimg%3E&type=%3Cb%3E&actor=9:9&from=zz', '#view=__proto__', '#view=sequence&type=__proto__&request=constructor'];
  for (const hash of views) {
    await page.evaluate((h) => { location.hash = h; }, hash);
    await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => setTimeout(r, 30))));
    assert.equal(await page.locator('img, iframe, object, b, i:not(.legend i)').count(), 0, hash);
    assert.equal(await page.locator('script').count(), 2, hash);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `${hash}: ${wide} px too wide`);
  }
  for (const text of ['<', 'T', 'W', '__proto__']) {
    await page.locator('#search').fill(text);
    assert.ok(await page.locator('#hits li').count() > 0);
  }
  await page.evaluate(() => { location.hash = '#view=sequence&event=0.3'; });
  await page.locator('#details .content').waitFor();
  assert.ok((await page.locator('#details .content').textContent()).startsWith('<script>window.pwned=4</script>'));
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.match(await page.locator('#notice').textContent(), /42 events lost/);
  // A character that turns the direction of text is shown as such, and does not.
  assert.ok(!(await page.evaluate(() => document.body.innerText)).includes('\u202e'));
  await done();
});

test('two hundred thousand events are shown, and what was left out is said', async () => {
  const began = Date.now();
  const { page, done } = await open(file('large'));
  assert.ok(Date.now() - began < 15_000, `${Date.now() - began} ms`);
  const { events } = expected('large');
  assert.match(await page.locator('#notice').textContent(), new RegExp(`older events of ${String(events).replace(/\B(?=(\d{3})+$)/g, ',')} left out`));
  await page.locator('#tab-sequence').click();
  await page.locator('.messages .row').first().waitFor();
  await page.locator('.messages').focus();
  const jump = Date.now();
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await page.locator('#details h2').waitFor();
  assert.ok(Date.now() - jump < 5_000, `${Date.now() - jump} ms`);
  assert.ok(await page.locator('.messages .row').count() < 80);
  await page.evaluate(() => { location.hash = 'view=requests&request=2'; });
  await page.locator('.waterfall-head h2', { hasText: 'Request 2' }).waitFor();
  await done();
});

test('the colours follow the reader', async () => {
  const back = async (colorScheme) => {
    const { page, done } = await open(file('served'), file('served'), { colorScheme });
    const colour = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await done();
    return colour;
  };
  assert.equal(await back('light'), 'rgb(255, 255, 255)');
  assert.notEqual(await back('dark'), 'rgb(255, 255, 255)');
});

test('godwit trace ui serves the page and ends when it is told to', async () => {
  const child = spawn(process.env.BROWSER_GODWIT, ['trace', 'ui', `${work}/served.gwt`]);
  let said = '';
  for await (const chunk of child.stdout) {
    said += chunk;
    if (said.includes('\n')) break;
  }
  const url = said.match(/http:\/\/127\.0\.0\.1:\d+\//)[0];
  const { page, done } = await open(url, url);
  assert.equal(await page.locator('#topology [data-kind=node]').count(), expected('served').nodes);
  assert.ok(await page.locator('#live').isHidden());
  await done();
  const ended = once(child, 'exit');
  child.kill('SIGINT');
  assert.deepEqual(await ended, [0, null]);
});

test('a running server shows its last seconds', async () => {
  const ask = () => fetch(`${server}/v1/completions`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ prompt: 'Once', max_tokens: 8 }),
  }).then((r) => r.json());
  await ask();
  const { page, done } = await open(`${server}/debug/`, server);
  await page.locator('#topology [data-kind=node]').first().waitFor();
  assert.ok(await page.locator('#topology [data-kind=edge]').count() > 3);
  await ask();
  const before = await page.locator('#live-text').textContent();
  await page.waitForFunction((text) => document.getElementById('live-text').textContent !== text, before);
  await page.locator('#tab-requests').click();
  await page.locator('.request').first().click();
  await page.locator('.bars .row').first().waitFor();
  // Who looks at a request does not want it to go away.
  assert.equal(await page.locator('#pause').getAttribute('aria-pressed'), 'true');
  let asked = 0;
  page.on('request', () => asked++);
  await page.waitForTimeout(2500);
  assert.equal(asked, 0);
  await page.locator('#pause').click();
  await page.waitForTimeout(2500);
  assert.ok(asked >= 1);
  await done();
});
