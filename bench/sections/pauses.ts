import { setTimeout as sleep } from 'node:timers/promises';
import { PIECE_CAUSES, type Pieces } from '../programs/pieces.ts';
import { openLoad, refuseErrors, START_MS } from '../run/rig.ts';
import { type Section, startTargets, WARM_SECONDS } from '../run/rounds.ts';
import { figures, spreads } from '../tables.ts';

const RATE = 1000;
const LONGER = 5; // than other figures are measured: what is rare needs readings too

/** What the event loop is busy with, and for how long without a break: a request that comes meanwhile waits. */
export const pauses: Section = {
  heading: 'What a request may have to wait for',
  start: (bench) => startTargets(bench, ['gateway']),
  steps: ({ rig }) => [
    {
      name: 'profile',
      warmSeconds: WARM_SECONDS / LONGER,
      async measure(target, seconds) {
        await rig.mode({ mode: 'burst' });
        await rig.load(openLoad(target, RATE));
        await sleep(START_MS);
        await target.probe('profile-start');
        await sleep(seconds * LONGER * 1000);
        const pieces: Record<string, Pieces> = await target.probe('profile-stop');
        refuseErrors(await rig.load('stop'));
        return Object.fromEntries(
          Object.entries(pieces).map(([cause, { total, longest, long }]) => [
            cause,
            { busy: total / LONGER / seconds, longest, long: (long * 60) / LONGER / seconds },
          ]),
        );
      },
    },
  ],
  ownTime: true,
  note: ({ seconds }) =>
    `${RATE.toLocaleString('en')} requests a second at random instants for ${seconds * LONGER} s, and a profile with a sample every 0.1 ms, which ` +
    'takes a tenth of the CPU itself. A piece is work on one thing without a break. Where ten samples in a row are missing ' +
    'in the middle of work, the thread was in the kernel or the machine gave its core to something else: a gap.',
  table: (results) => {
    const rows = PIECE_CAUSES.map((cause) => [cause, cause, 'gateway'] as const);
    return [
      figures(results, 'work on', rows, {
        'ms a second': spreads('busy'),
        'pieces above 1 ms, a minute': spreads('long'),
        'longest piece, ms': spreads('longest'),
      }),
    ];
  },
};
