import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync } from 'node:zlib';
import chromium from '@sparticuz/chromium';
import axe from 'axe-core';
import { unpackTar } from 'modern-tar';
import {
  type Browser,
  type BrowserContextOptions,
  type Locator,
  type Page,
  chromium as playwright,
} from 'playwright-core';
import type { Test } from 'tap';
import { atEnd } from '../support/at-end.ts';
import { HAS_MEMORY_DIR } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { PASSWORD, Person } from './people.ts';

/** A real Chromium, and the checks of every page in it. With SCREENSHOTS=1 it writes pictures to .tap/screenshots. */

/**
 * Off: those of Playwright's own list that matter here, since only the last such flag counts, and a frame of its own for
 * each page, which is a third of the CPU of opening one.
 */
const FEATURES_OFF = [
  'RenderDocument',
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsFirstBalancedModeAutoEnable',
  'HttpsUpgrades',
  'PaintHolding',
  'ThirdPartyStoragePartitioning',
];
const FLAGS = [
  `--disable-features=${FEATURES_OFF.join()}`,
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // a name that is no "localhost", as pages by plain HTTP in a network have
  '--host-resolver-rules=MAP *.test 127.0.0.1',
];
/** With it pages are drawn into files on the disk: a sixth of the CPU of these tests. */
const WITHOUT = HAS_MEMORY_DIR ? ['--disable-dev-shm-usage'] : [];
const SCREENSHOTS = fileURLToPath(new URL('../../.tap/screenshots/', import.meta.url));
/** The rules of axe-core that judge colours: dark pages differ from light ones in nothing else. */
const COLOURS = ['color-contrast', 'link-in-text-block'];

let running: Promise<Browser> | undefined;

/** The browser of this process; each test has tabs of its own. */
export function startBrowser(t: Test): Promise<Browser> {
  running ??= launchBrowser(t);
  return running;
}

async function launchBrowser(t: Test): Promise<Browser> {
  // the package has a browser for Linux on x64; elsewhere an installed one is used
  const executablePath = process.env.CHROMIUM ?? (await chromium.executablePath());
  if (!existsSync(executablePath)) throw new Error('no browser: set CHROMIUM to the path of one');
  const env = { ...(process.env as Record<string, string>), FONTCONFIG_FILE: await ownFonts() };
  const launch = () =>
    playwright
      .launch({ executablePath, args: FLAGS, ignoreDefaultArgs: WITHOUT, headless: true, env })
      .catch((error: Error) => {
        // another test unpacks it just now
        if (!error.message.includes('ETXTBSY')) throw error;
        return null;
      });
  const browser = (await until(launch, 'the browser is unpacked')) as Browser;
  atEnd(t, () => {
    rmSync(join(tmpdir(), `tollgate-fonts-${process.pid}`), { recursive: true, force: true });
    return browser.close();
  });
  return browser;
}

/** The fonts of the browser's package, and no others: a page is as wide on every machine. @returns a file for fontconfig */
async function ownFonts(): Promise<string> {
  const packed = readFileSync(
    new URL('../bin/fonts.tar.br', import.meta.resolve('@sparticuz/chromium')),
  );
  const folder = join(tmpdir(), `tollgate-fonts-${process.pid}`);
  mkdirSync(folder, { recursive: true });
  for (const { header, data } of await unpackTar(brotliDecompressSync(packed)))
    if (header.name.endsWith('.ttf'))
      writeFileSync(join(folder, basename(header.name)), data ?? '');
  const file = join(folder, 'fonts.conf');
  writeFileSync(
    file,
    `<fontconfig><dir>${folder}</dir><cachedir>${folder}</cachedir></fontconfig>`,
  );
  return file;
}

export interface Tab {
  readonly page: Page;
  /** Errors of the page, and what its content security policy refused. */
  readonly complaints: string[];
}

/** After which a page is taken for hung: ten others may want the same two cores. */
const PATIENCE_MS = 180_000;

/** A window of its own, with its own cookies. */
export async function openTab(
  browser: Browser,
  base: string,
  options: BrowserContextOptions = {},
): Promise<Tab> {
  const context = await browser.newContext({ baseURL: base, locale: 'en-DE', ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  waitForWholePages(page);
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    // the console reports a 4xx answer to a form as an error
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text()))
      complaints.push(message.text());
  });
  return { page, complaints };
}

/** Locators of all tabs share one prototype, which is changed once. */
let locatorsWait = false;

/**
 * Makes a click or a key wait for the whole page that it leads to. By itself it waits until that page begins, and
 * `allInnerTexts` would then read a page that is still arriving.
 */
function waitForWholePages(page: Page): void {
  const wait = (
    target: object,
    names: readonly string[],
    pageOf: (target: Locator) => Page,
  ): void => {
    for (const name of names) {
      const act = Reflect.get(target, name);
      Reflect.set(target, name, async function (this: Locator, ...options: unknown[]) {
        await act.apply(this, options);
        await pageOf(this).waitForLoadState('domcontentloaded');
      });
    }
  };
  wait(page.keyboard, ['press'], () => page);
  if (!locatorsWait)
    wait(Object.getPrototypeOf(page.locator('html')), ['click', 'dblclick', 'press'], (at) =>
      at.page(),
    );
  locatorsWait = true;
}

/**
 * A tab of somebody who is signed in, until the end of the test. Nothing is drawn for that: the sign-in page and the
 * first page after it cost as much as two others.
 */
export async function signedInTab(
  t: Test,
  { adminUrl: base }: { readonly adminUrl: string },
  email: string,
  { password = PASSWORD, ...options }: BrowserContextOptions & { password?: string } = {},
): Promise<Tab> {
  const person = new Person(base);
  const { status } = await person.signIn(email, password);
  if (status !== 303) throw new Error(`${email} could not sign in: ${status}`);
  const tab = await openTab(await startBrowser(t), base, options);
  t.teardown(() => tab.page.context().close());
  await tab.page
    .context()
    .addCookies([...person.cookies].map(([name, value]) => ({ name, value, url: base })));
  return tab;
}

/** Signs in as people do. */
export async function signInTab({ page }: Tab, email: string, password: string): Promise<void> {
  await page.goto('/sign-in');
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

/** Chooses from a list above usage: with script it is asked at once, without it by the button of its form. */
export async function choose(
  page: Page,
  label: string,
  option: string | { label: string },
  hasScript = true,
): Promise<void> {
  const list = page.getByLabel(label, { exact: true });
  const fold = list.locator('xpath=ancestor::details[not(@open)]/summary');
  if ((await fold.count()) > 0) await fold.click();
  const answered = page.waitForEvent('load');
  await list.selectOption(option);
  if (!hasScript)
    await list.locator('xpath=ancestor::form').getByRole('button', { name: 'Apply' }).click();
  await answered;
}

/** Violations in words need no selectors, and no list of what is right, which take axe-core long to make. */
const VIOLATIONS = { resultTypes: ['violations'], selectors: false };

/** Pages that have axe-core, by where the pages that they judge come from: to load it takes as long as to judge. */
const judges = new Map<string, Promise<Page>>();

async function newJudge(browser: Browser, origin: string): Promise<Page> {
  const judge = await (await browser.newContext({ bypassCSP: true })).newPage();
  await judge.goto(`${origin}/sign-in`);
  await judge.evaluate(axe.source);
  return judge;
}

/** Shows a copy of a page in place of the present one. */
const SHOW = `(async (html) => {
  const copy = new DOMParser().parseFromString(html, 'text/html').documentElement;
  const styles = [...copy.querySelectorAll('link[rel=stylesheet]')];
  const loaded = styles.map((each) => new Promise((resolve, reject) => Object.assign(each, { onload: resolve, onerror: reject })));
  document.replaceChild(copy, document.documentElement);
  await Promise.all(loaded);
})`;

/** The violations that axe-core finds, in words: on the page itself with ALL, else on a copy. */
export async function accessibility(page: Page, options: object = {}): Promise<string[]> {
  let judge = page;
  if (ALL || process.env.SCREENSHOTS) {
    // the debugger evaluates it, so the content security policy does not apply
    if (await page.evaluate('typeof axe === "undefined"')) await page.evaluate(axe.source);
  } else {
    const { origin } = new URL(page.url());
    const made = judges.get(origin) ?? newJudge(page.context().browser() as Browser, origin);
    judges.set(origin, made);
    judge = await made;
    await judge.setViewportSize(page.viewportSize() as { width: number; height: number });
    await judge.evaluate(`${SHOW}(${JSON.stringify(await page.content())})`);
  }
  return judge.evaluate(`axe.run(${JSON.stringify({ ...VIOLATIONS, ...options })}).then(({ violations }) => violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => id + ': ' + html + ' ' + failureSummary)))`);
}

/** Words of no more letters have room on every phone; longer ones are names, which may break. */
const MOST_LETTERS = 14;

const BROKEN = `(() => {
  const found = [];
  const hides = (each) => each !== null && (each.offsetWidth === 1 || hides(each.parentElement)); // for screen readers alone
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { currentNode: text } = texts;
    const { parentElement: of } = text;
    if (!of.checkVisibility() || of.closest('code, pre, .typed, script, .sr') || hides(of)) continue;
    for (const { 0: word, index } of text.data.matchAll(/(?<![^\\s(“"])[\\p{L}’']{2,${MOST_LETTERS}}(?![^\\s).,:;!?”"])/gu)) {
      const range = document.createRange();
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      const tops = [...range.getClientRects()].filter(({ width }) => width > 0).map(({ bottom }) => Math.round(bottom));
      if (Math.max(...tops) - Math.min(...tops) > 4) found.push(innerWidth + ': "' + word + '" is broken in ' + of.outerHTML.slice(0, 120));
    }
  }
  return found.slice(0, 8);
})()`;

/** Words that are broken over two lines. Code and addresses have no words. */
export function brokenWords(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(BROKEN);
}

/** Whether pages are looked at in every width, colour scheme and language: otherwise in one, and narrow.test.ts has the narrowest. */
export const ALL = process.env.ALL !== undefined;
/** Whether script runs, where a test tries a page both ways: without it with ALL, and in tests that try nothing else. */
export const SCRIPTS: readonly boolean[] = ALL ? [true, false] : [true];
/** Set by run.ts where no change touches the pages. */
const UNCHANGED = process.env.PAGES_UNCHANGED !== undefined;

/**
 * Looks at a page in one of its states: before a release as `examine` does. Else axe-core is left out, half a second of
 * CPU each time: it judges every page once in accessible.test.ts. @returns what is wrong with it, in words
 */
export function glance(page: Page, name: string): Promise<string[]> {
  return examine(page, name, ALL);
}

/** Looks at a page on a desk; with ALL on a phone and in dark, too. @returns what is wrong with it, in words */
export async function examine(page: Page, name: string, withAxe = !UNCHANGED): Promise<string[]> {
  const found: string[] = [];
  // the slowest rule; colours are the same on a phone
  const onPhone = { rules: { 'color-contrast': { enabled: false } } };
  const all = [
    ['desk', 1200, 'light', {}],
    ['desk', 1200, 'dark', { runOnly: COLOURS }],
    ['phone', 375, 'light', onPhone],
  ] as const;
  for (const [device, width, colorScheme, options] of ALL || process.env.SCREENSHOTS
    ? all
    : all.slice(0, 1)) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    const path = `${SCREENSHOTS}${name}-${device}-${colorScheme}.png`;
    if (process.env.SCREENSHOTS) await page.screenshot({ path, fullPage: true });
    if (withAxe)
      found.push(
        ...(await accessibility(page, options)).map((each) => `${device} ${colorScheme} ${each}`),
      );
    else if (colorScheme === 'dark') continue; // as wide as in light
    const overflow: number = await page.evaluate(
      'document.documentElement.scrollWidth - document.documentElement.clientWidth',
    );
    found.push(...(await brokenWords(page)));
    if (overflow > 0) found.push(`${device}: ${overflow} pixels wider than the window`);
  }
  await page.setViewportSize({ width: 1200, height: 800 });
  return found;
}
