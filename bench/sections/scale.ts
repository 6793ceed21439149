import { setTimeout as sleep } from 'node:timers/promises';
import { compared } from '../results.ts';
import { loadOf, refuseErrors, underLoad } from '../run/rig.ts';
import type { Bench, Section } from '../run/rounds.ts';
import { startGateway, type Target } from '../run/targets.ts';
import { costs, figures, goal } from '../tables.ts';

const CONNECTIONS = 64;
/** Gateways that differ only in what their databases hold. */
const LABELS = {
  small: '1 company and key, no ledger rows',
  companies: 'many companies and keys',
  ledger: 'many ledger rows',
};

/** One gateway beside others with many companies or many ledger rows. */
export const scale: Section = {
  heading: 'Companies, keys and ledger rows',
  async start(bench) {
    const { companies, ledgerRows } = bench;
    const seeds = { small: {}, companies: { companies }, ledger: { ledgerRows } };
    bench.say(`filling databases with ${companies} companies, and with ${ledgerRows} ledger rows`);
    const targets: Target[] = [];
    for (const [name, seed] of Object.entries(seeds)) {
      const databaseUrl = await bench.server.seeded(seed);
      targets.push(await startGateway({ ...bench, databaseUrl }, { name }));
    }
    for (const target of targets) await useEveryKey(bench, target);
    return targets;
  },
  steps: (bench) => [
    {
      name: 'scale',
      async measure(target, seconds) {
        const load = loadOf(target, CONNECTIONS, { keys: keysOf(bench, target) });
        return { scale: (await underLoad(bench.rig, target, load, seconds)).perRequest };
      },
    },
  ],
  note: ({ companies, ledgerRows }) =>
    `${companies.toLocaleString('en')} companies with a key each, used in turn; ${ledgerRows.toLocaleString('en')} ledger rows, all of this month and of the company asking.`,
  table: (results) => {
    const rows = Object.entries(LABELS).map(([name, label]) => [label, 'scale', name] as const);
    return [figures(results, 'database', rows, costs('request', 'small', 'small'))];
  },
  goals: (results) => {
    const ratio = (name: string) => compared(results, ['scale', name], ['scale', 'small']);
    return [
      goal('CPU per request, many companies and keys ÷ one', 1.15, 1.1, ratio('companies')),
      goal('CPU per request, many ledger rows ÷ none', 1.15, 1.1, ratio('ledger')),
    ];
  },
};

function keysOf({ companies }: Bench, { name }: Target): number {
  return name === 'companies' ? companies : 1;
}

/** Warms a gateway up for three seconds at least, until every key was used. */
async function useEveryKey(bench: Bench, target: Target): Promise<void> {
  const { rig, quick, say } = bench;
  const keys = keysOf(bench, target);
  await rig.mode({ mode: 'burst' });
  await rig.load(loadOf(target, CONNECTIONS, { keys }));
  for (let used = 0; used < keys * 1.1; say(`warming up ${target.name}: ${used} answers`)) {
    await sleep(quick ? 200 : 3000);
    const answers = await rig.load('read');
    refuseErrors(answers);
    used = answers.done;
  }
  await rig.load('stop');
}
