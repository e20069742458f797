// Debian's Chromium, without a window, and an eye on what a page does besides being looked at.
import { chromium } from 'playwright-core';

export const launch = (executablePath) => chromium.launch({
  executablePath,
  args: ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});

// A page that remembers errors, dialogs, and requests to anybody but `own` (the beginning of an address).
export async function watched(browser, own, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 760 }, ...options });
  const faults = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') faults.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.stack}`));
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(own) && request.url() !== 'data:,') faults.push(`request: ${request.url()}`);
  });
  return { page, faults };
}
