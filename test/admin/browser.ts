import { existsSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import chromium from '@sparticuz/chromium';
import { type Browser, type BrowserContextOptions, type Page, chromium as playwright } from 'playwright-core';
import type { Test } from 'tap';

/** A real Chromium, and the checks of every page in it. */

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const SCREENSHOTS = fileURLToPath(new URL('../../.tap/screenshots/', import.meta.url));

export async function startBrowser(t: Test): Promise<Browser> {
  // the package has a browser for Linux on x64; elsewhere an installed one is used
  const executablePath = process.env.CHROMIUM ?? (await chromium.executablePath());
  if (!existsSync(executablePath)) throw new Error('no browser: set CHROMIUM to the path of one');
  mkdirSync(SCREENSHOTS, { recursive: true });
  const browser = await playwright.launch({ executablePath, args: FLAGS, headless: true });
  t.teardown(() => browser.close());
  return browser;
}

export interface Tab {
  readonly page: Page;
  /** Errors of the page, and what its content security policy refused. */
  readonly complaints: string[];
}

/** A window of its own, with its own cookies. */
export async function openTab(browser: Browser, base: string, options: BrowserContextOptions = {}): Promise<Tab> {
  const context = await browser.newContext({ baseURL: base, locale: 'de-DE', ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    // the console reports a 4xx answer to a form as an error
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) complaints.push(message.text());
  });
  return { page, complaints };
}

export async function signInTab({ page }: Tab, email: string, password: string): Promise<void> {
  await page.goto('/sign-in');
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

/** The violations that axe-core finds, in words. */
export async function accessibility(page: Page, options: object = {}): Promise<string[]> {
  const { source } = await import('axe-core').then((axe) => axe.default);
  // the debugger evaluates it, so the content security policy does not apply
  await page.evaluate(source);
  return page.evaluate(`axe.run(${JSON.stringify(options)}).then(({ violations }) => violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => id + ': ' + html + ' ' + failureSummary)))`);
}

/** Writes screenshots of a page into .tap/screenshots (light, dark, phone). @returns what is wrong with the page */
export async function photograph(page: Page, name: string): Promise<string[]> {
  const found: string[] = [];
  // the slowest rule; colours are the same on a phone
  const onPhone = { rules: { 'color-contrast': { enabled: false } } };
  for (const [device, width, colorScheme, options] of [
    ['desk', 1200, 'light', {}],
    ['desk', 1200, 'dark', {}],
    ['phone', 375, 'light', onPhone],
  ] as const) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `${SCREENSHOTS}${name}-${device}-${colorScheme}.png`, fullPage: true });
    found.push(...(await accessibility(page, options)).map((each) => `${device} ${colorScheme} ${each}`));
    const overflow: number = await page.evaluate(
      'document.documentElement.scrollWidth - document.documentElement.clientWidth',
    );
    if (overflow > 0) found.push(`${device}: ${overflow} pixels wider than the window`);
  }
  await page.setViewportSize({ width: 1200, height: 800 });
  return found;
}
