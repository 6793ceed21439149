import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { newFolder } from '../support/child.ts';
import { freePort } from '../support/port.ts';
import { until } from '../support/until.ts';

/** Browsers that do what a person does: one of Playwright, one that WebDriver drives, and Firefox. */

/** A browser that acts, whichever it is. A selector finds one element; `MARKED` finds the one that `MARK` marks. */
export interface Hand {
  open(url: string): Promise<void>;
  read<T>(script: string): Promise<T>;
  click(selector: string): Promise<void>;
  /** Puts a text into a field in place of the one there. */
  type(selector: string, text: string, enter: boolean): Promise<void>;
  /** Chooses from a list, by what people read. */
  choose(selector: string, text: string): Promise<void>;
}

export const MARK = 'data-hand';
export const MARKED = `[${MARK}]`;
const ENTER = '\uE007';
/** Tells a page that `it` was changed. */
const TELL = `for (const name of ['input', 'change']) it.dispatchEvent(new Event(name, { bubbles: true }))`;

/** Whether a field is of a date, each part of which is a field of its own for whoever types. */
function isDate(selector: string): string {
  return `/^(date|month|time)/.test(document.querySelector('${selector}').type)`;
}

/** Fills in such a field. */
function withDate(selector: string, text: string): string {
  return `(() => { const it = document.querySelector('${selector}'); it.value = ${JSON.stringify(text)}; ${TELL}; return null; })()`;
}

export function handOf(page: Page): Hand {
  return {
    open: async (url) => void (await page.goto(url)),
    read: (script) => page.evaluate(script),
    click: (selector) => page.locator(selector).click(),
    async type(selector, text, enter) {
      await page.locator(selector).fill(text);
      if (enter) await page.locator(selector).press('Enter');
    },
    choose: async (selector, label) => void (await page.locator(selector).selectOption({ label })),
  };
}

/**
 * Starts a driver of WebDriver.
 * @param browser its program, where the driver needs one
 * @returns begins a session in place of the one before
 */
export async function startDriver(
  t: Test,
  program: string,
  browser?: string,
): Promise<() => Promise<Hand>> {
  const port = await freePort();
  const child = spawn(program, [`--port=${port}`], { stdio: 'ignore' });
  t.teardown(() => child.kill());
  const base = `http://127.0.0.1:${port}`;
  const isReady = () => send(base, 'GET', '/status').catch(() => null);
  await until(isReady, 'the driver answers', (answer) => answer !== null);
  const options = browser && { binary: browser, args: ['--automation'] };
  const alwaysMatch = options ? { 'webkitgtk:browserOptions': options } : {};
  const sessions: string[] = [];
  const endSession = async (): Promise<void> => {
    for (const id of sessions.splice(0)) await send(base, 'DELETE', `/session/${id}`);
  };
  t.teardown(endSession);
  return async () => {
    await endSession(); // it has one at a time
    const { sessionId } = await send<{ sessionId: string }>(base, 'POST', '/session', {
      capabilities: { alwaysMatch },
    });
    sessions.push(sessionId);
    return handBy(base, sessionId);
  };
}

/** A command of WebDriver (W3C). @returns its value */
async function send<T>(base: string, method: string, path: string, body?: object): Promise<T> {
  const init = body && {
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  };
  const answer = await fetch(base + path, { method, ...init });
  const { value } = (await answer.json()) as { value: T & { message?: string } };
  if (!answer.ok) throw new Error(`${method} ${path}: ${value.message}`);
  return value;
}

function handBy(base: string, session: string): Hand {
  const post = <T>(path: string, body: object) =>
    send<T>(base, 'POST', `/session/${session}${path}`, body);
  const element = async (value: string, using = 'css selector') =>
    Object.values(await post<Record<string, string>>('/element', { using, value }))[0];
  const read = <T>(script: string) =>
    post<T>('/execute/sync', { script: `return ${script}`, args: [] });
  return {
    open: (url) => post('/url', { url }),
    read,
    click: async (selector) => post(`/element/${await element(selector)}/click`, {}),
    async type(selector, text, enter) {
      if (await read<boolean>(isDate(selector))) return read(withDate(selector, text));
      const id = await element(selector);
      await post(`/element/${id}/clear`, {});
      await post(`/element/${id}/value`, { text: enter ? text + ENTER : text });
    },
    async choose(_selector, text) {
      const option = await element(`//*[@${MARK}]//option[normalize-space()='${text}']`, 'xpath');
      await post(`/element/${option}/click`, {});
    },
  };
}

/** What a browser says by WebDriver BiDi: an answer, or an event. */
interface Said {
  readonly id?: number;
  readonly result?: object;
  readonly message?: string;
  readonly method?: string;
  readonly params?: { readonly context?: string };
}

const STARTED = 'browsingContext.navigationStarted';
const ENDED = [
  'browsingContext.load',
  'browsingContext.fragmentNavigated',
  'browsingContext.navigationFailed',
  'browsingContext.downloadWillBegin',
];

/**
 * Starts Firefox, which needs no driver: it speaks WebDriver BiDi (W3C) itself.
 * @returns opens a tab of somebody who was never here
 */
export async function startFirefox(t: Test, program: string): Promise<() => Promise<Hand>> {
  const options = ['--headless', '--no-remote', '--remote-debugging-port=0', '--profile'];
  const profile = newFolder(t);
  await writeFile(join(profile, 'user.js'), 'user_pref("intl.accept_languages", "en-DE");\n'); // as in Chromium
  const child = spawn(program, [...options, profile], { stdio: ['ignore', 'ignore', 'pipe'] });
  t.teardown(async () => {
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill();
    await gone; // only then its folder can be removed
  });
  const address = await new Promise<string>((resolve, reject) => {
    child.once('exit', () => reject(new Error(`${program} ended`)));
    createInterface({ input: child.stderr }).on('line', (line) => {
      const found = /WebDriver BiDi listening on (\S+)/.exec(line)?.[1];
      if (found !== undefined) resolve(found);
    });
  });
  const socket = new WebSocket(`${address}/session`);
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = () => reject(new Error(`${program} takes no session`));
  });
  t.teardown(() => socket.close());
  const waiting = new Map<number, PromiseWithResolvers<object>>();
  /** Tabs that go to another page. */
  const leaving = new Set<string | undefined>();
  socket.onmessage = ({ data }) => {
    const { id, result, message, method, params }: Said = JSON.parse(data);
    if (method === STARTED) leaving.add(params?.context);
    else if (method !== undefined && ENDED.includes(method)) leaving.delete(params?.context);
    const asked = waiting.get(id ?? 0);
    waiting.delete(id ?? 0);
    if (result === undefined) asked?.reject(new Error(message));
    else asked?.resolve(result);
  };
  let last = 0;
  const command = async <T>(method: string, params: object): Promise<T> => {
    const asked = Promise.withResolvers<object>();
    waiting.set(++last, asked);
    socket.send(JSON.stringify({ id: last, method, params }));
    return (await asked.promise) as T;
  };
  await command('session.new', { capabilities: {} });
  await command('session.subscribe', { events: [STARTED, ...ENDED] });
  return async () => {
    const { userContext } = await command<{ userContext: string }>('browser.createUserContext', {});
    const { context } = await command<{ context: string }>('browsingContext.create', {
      type: 'tab',
      userContext,
    });
    await command('browsingContext.setViewport', {
      context,
      viewport: { width: 1440, height: 900 },
    });
    return handOfTab(context, command, () => leaving.has(context));
  };
}

function handOfTab(
  context: string,
  command: <T>(method: string, params: object) => Promise<T>,
  isLeaving: () => boolean,
): Hand {
  const evaluate = <T>(expression: string): Promise<T> =>
    command('script.evaluate', { expression, target: { context }, awaitPromise: true });
  const read = async <T>(script: string): Promise<T> => {
    const { result } = await evaluate<{ result: { value?: string } }>(`JSON.stringify(${script})`);
    return JSON.parse(result.value ?? 'null');
  };
  /** Acts, and waits for the whole page that this leads to, as a person does. */
  const act = async (source: object): Promise<void> => {
    await command('input.performActions', { context, actions: [source] });
    await evaluate('new Promise((resolve) => setTimeout(resolve))').catch(() => {}); // by then it goes
    await until(() => !isLeaving(), 'a page is whole');
  };
  /** Does something with the element before it is looked at, which is `it` there. */
  const element = async (selector: string, before: string) => {
    const { result } = await evaluate<{ result: { sharedId: string } }>(
      `(() => { const it = document.querySelector('${selector}'); ${before}; return it; })()`,
    );
    return { type: 'element', element: { sharedId: result.sharedId } };
  };
  const click = async (selector: string): Promise<void> => {
    const origin = await element(selector, `it.scrollIntoView({ block: 'center' })`);
    const move = { type: 'pointerMove', x: 0, y: 0, origin };
    const press = ['pointerDown', 'pointerUp'].map((type) => ({ type, button: 0 }));
    await act({ type: 'pointer', id: 'mouse', actions: [move, ...press] });
  };
  return {
    open: async (url) =>
      void (await command('browsingContext.navigate', { context, url, wait: 'complete' })),
    read,
    click,
    async type(selector, text, enter) {
      if (await read<boolean>(isDate(selector))) return read(withDate(selector, text));
      await element(selector, 'it.focus(); it.select()');
      const keys = enter ? text + ENTER : text;
      const actions = [...keys].flatMap((value) =>
        ['keyDown', 'keyUp'].map((type) => ({ type, value })),
      );
      await act({ type: 'key', id: 'keyboard', actions });
    },
    async choose(selector, text) {
      const chosen = `[...it.options].find((option) => option.innerText.trim() === ${JSON.stringify(text)})`;
      const pointed = `it.dispatchEvent(new PointerEvent('pointerdown', { bubbles: true }))`;
      await element(selector, `${pointed}; it.value = ${chosen}.value; ${TELL}`);
    },
  };
}
