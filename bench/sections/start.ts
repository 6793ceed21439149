import { setTimeout as sleep } from 'node:timers/promises';
import { requestBody } from '../load/body.ts';
import { benchKey, SLUG } from '../programs/answers.ts';
import { reading } from '../results.ts';
import { residentBytes } from '../run/process.ts';
import type { Section } from '../run/rounds.ts';
import { startGateway, type Target } from '../run/targets.ts';
import { figureTable, goal } from '../tables.ts';

/** From starting the process to the first whole answer; memory two seconds later. */
export const start: Section = {
  heading: 'Start and idle memory',
  steps: (bench) => [
    {
      name: 'start',
      warmSeconds: 1, // the first start fills the compile cache and the file cache
      async measure() {
        const began = performance.now();
        const gateway = await startGateway(bench, { flags: [] });
        await firstAnswer(gateway);
        const ms = performance.now() - began;
        await sleep(2000);
        const idle = residentBytes(gateway) / 1e6;
        await gateway.stop();
        return { start: { ms, idle } };
      },
    },
  ],
  ownTime: true,
  note: () =>
    'Existing database, file caches warm; idle memory two seconds after the first answer.',
  table: (results) => {
    const labels = { ms: 'start to first answer', idle: 'resident memory, idle' };
    return [figureTable(results, 'start', labels, { ms: 'ms', idle: 'MB' })];
  },
  goals: (results) => {
    const measured = (kind: string) => reading(results, 'start', 'gateway', kind);
    return [
      goal('resident memory, idle', 90, 70, measured('idle'), { unit: 'MB' }),
      goal('start to first answer', 500, 300, measured('ms'), { unit: 'ms' }),
    ];
  },
};

/** Asks every millisecond until there is a whole answer. @throws when there is none after 20 s */
async function firstAnswer({ baseUrl }: Target): Promise<void> {
  const headers = { authorization: `Bearer ${benchKey(0)}`, 'content-type': 'application/json' };
  const request = { method: 'POST', headers, body: requestBody({ model: SLUG, bytes: 1024 }) };
  for (const end = performance.now() + 20_000; ; await sleep(1)) {
    const answer = await fetch(`${baseUrl}/chat/completions`, request).catch(() => null);
    if (answer?.ok && (await answer.text()) !== '') return;
    if (performance.now() > end) throw new Error('the gateway gave no whole answer');
  }
}
