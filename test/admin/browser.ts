import { existsSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import chromium from '@sparticuz/chromium';
import { type Browser, type BrowserContextOptions, type Page, chromium as playwright } from 'playwright-core';
import type { Test } from 'tap';

/** A real Chromium, and what is asked of every page in it. */

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
  // the package's own is for x64 Linux; elsewhere a browser that is installed does as well
  const executablePath = process.env.CHROMIUM ?? (await chromium.executablePath());
  if (!existsSync(executablePath)) throw new Error('no browser: set CHROMIUM to the path of one');
  mkdirSync(SCREENSHOTS, { recursive: true });
  const browser = await playwright.launch({ executablePath, args: FLAGS, headless: true });
  t.teardown(() => browser.close());
  return browser;
}

export interface Tab {
  readonly page: Page;
  /** Errors of the page and refusals of its content security policy so far. */
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
    // refused forms are answered with 4xx, which the console tells as an error
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

/** What axe-core finds, in words; nothing is what it should be. */
export async function accessibility(page: Page, options: object = {}): Promise<string[]> {
  const { source } = await import('axe-core').then((axe) => axe.default);
  // evaluated by the debugger, which the content security policy does not bind
  await page.evaluate(source);
  return page.evaluate(`axe.run(${JSON.stringify(options)}).then(({ violations }) => violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => id + ': ' + html + ' ' + failureSummary)))`);
}

/** Pictures of a page in light and dark, and on a phone, into .tap/screenshots; and what is wrong with it. */
export async function photograph(page: Page, name: string): Promise<string[]> {
  const found: string[] = [];
  // colours are the same on a phone, and to look at them takes longest
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
