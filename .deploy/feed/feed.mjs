/** What the programs beside this one share: ../feed.md tells what to set. */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';

const { TOLLGATE_URL, TOLLGATE_TOKEN, CURSOR_FILE = 'cursor' } = process.env;

/** Writes a file whole, or not at all. */
export function keep(file, text) {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}

/** Hands over new calls, 100 at a time, until there are none. A cursor is kept once its calls are done. */
export async function eachPage(handle) {
  for (;;) {
    const after = existsSync(CURSOR_FILE) ? `&after=${readFileSync(CURSOR_FILE, 'utf8')}` : '';
    const headers = { authorization: `Bearer ${TOLLGATE_TOKEN}` };
    const answer = await fetch(`${TOLLGATE_URL}/api/v1/usage-feed?limit=100${after}`, { headers });
    if (!answer.ok) throw new Error(await answer.text());
    const lines = (await answer.text()).split('\n').filter((line) => line !== '');
    if (lines.length === 0) return;
    const calls = lines.map((line) => JSON.parse(line));
    await handle(calls);
    keep(CURSOR_FILE, calls.at(-1).cursor);
  }
}
