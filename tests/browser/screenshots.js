// The pictures of docs/trace_page.md, made of a recording's page:
//   godwit trace ui t.gwt --output page.html && node tests/browser/screenshots.js page.html docs/images [REQUEST]
// REQUEST: which one to show; otherwise the one with most events.
import { mkdirSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

import { launch, watched } from './browser.js';

const [file, folder, wanted] = process.argv.slice(2);
const url = `file://${resolve(file)}`;
const browser = await launch(process.env.BROWSER_PROGRAM ?? '/usr/bin/chromium');
const { page, faults } = await watched(browser, url, { viewport: { width: 1120, height: 600 } });
await page.goto(url);
await page.waitForFunction(() => document.querySelector('[role=tab][aria-selected=true]'));
mkdirSync(folder, { recursive: true });

async function picture(name) {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100))));
  const path = `${folder}/trace_${name}.png`;
  await page.screenshot({ path });
  console.log(`${path}: ${Math.round(statSync(path).size / 1024)} KiB`);
}

await page.locator('#topology [data-kind=node]', { hasText: 'frontend' }).first().dispatchEvent('click');
await picture('topology');

await page.locator('#tab-requests').click();
await page.locator('#request-order').selectOption('messages');
if (wanted) await page.evaluate((r) => { location.hash = `view=requests&request=${r}`; }, wanted);
else await page.locator('.request').first().click();
await page.locator('.bars .row').first().waitFor();
await page.locator('.bars .row', { hasText: /transfer|step_output/ }).first().click();
await page.locator('#details h2').waitFor();
// The beginning, where every bar can be told.
await page.locator('.bars').focus();
for (let i = 0; i < 6; i++) await page.keyboard.press('+');
for (let i = 0; i < 60; i++) await page.keyboard.press('ArrowLeft');
await page.locator('.bars').evaluate((list) => list.blur());
await picture('waterfall');

await page.locator('.waterfall-head a', { hasText: 'sequence' }).click();
await page.locator('.messages .row').first().waitFor();
await page.locator('.messages .row', { hasText: 'dispatch' }).first().click();
await page.locator('#details h2', { hasText: 'dispatch' }).waitFor();
await picture('sequence');

await browser.close();
if (faults.length > 0) throw new Error(faults.join('\n'));
