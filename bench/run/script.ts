import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { Figures } from '../results.ts';
import { startPinned, TEST_CORES } from './process.ts';
import { NODE_FLAGS } from './targets.ts';

/** Runs a program of the benchmark alone on the test core. @returns the JSON object of figures that it prints */
export async function runScript(file: string, env: Readonly<Record<string, string>> = {}): Promise<Figures> {
  const path = fileURLToPath(new URL(`../programs/${file}`, import.meta.url));
  const child = startPinned(TEST_CORES, process.execPath, [...NODE_FLAGS, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH, ...env },
  });
  const ended = once(child, 'close');
  const printed = child.stdout === null ? '' : await text(child.stdout);
  const [code] = await ended;
  if (code !== 0) throw new Error(`${file} ended with ${code}`);
  return JSON.parse(printed) as Figures;
}
