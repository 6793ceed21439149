import { setTimeout as sleep } from 'node:timers/promises';
import { compared } from '../results.ts';
import { loadOf, measureRequests, refuseErrors } from '../run/rig.ts';
import type { Bench, Section } from '../run/rounds.ts';
import { startGateway, type Target } from '../run/targets.ts';
import { costCells, goal, table } from '../tables.ts';

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
        return { scale: await measureRequests(bench.rig, target, loadWithKeys(bench, target), seconds) };
      },
    },
  ],
  note: ({ companies, ledgerRows }) =>
    `${companies.toLocaleString('en')} companies with a key each, used in turn; ${ledgerRows.toLocaleString('en')} ledger rows, all of this month and of the company asking.`,
  table: (results) => {
    const rows = Object.entries(LABELS).map(([name, label]) => [
      label,
      ...costCells(results, 'scale', name, ['rate'], 'small'),
    ]);
    return table(['database', 'CPU µs per request', '÷ small', 'requests/s'], rows);
  },
  goals: (results) => {
    const ratio = (name: string) => compared(results, ['scale', name], ['scale', 'small']);
    return [
      goal('CPU per request, many companies and keys ÷ one', 1.15, 1.1, ratio('companies')),
      goal('CPU per request, many ledger rows ÷ none', 1.15, 1.1, ratio('ledger')),
    ];
  },
};

function loadWithKeys(bench: Bench, target: Target) {
  return { ...loadOf(target, CONNECTIONS), keys: target.name === 'companies' ? bench.companies : 1 };
}

/** Warms a gateway up for three seconds at least, until every key was used. */
async function useEveryKey(bench: Bench, target: Target): Promise<void> {
  const { rig } = bench;
  await rig.mode({ mode: 'burst' });
  const load = loadWithKeys(bench, target);
  await rig.load({ do: 'start', load });
  for (let used = 0; used < load.keys * 1.1; ) {
    await sleep(bench.quick ? 200 : 3000);
    const answers = await rig.load({ do: 'read' });
    refuseErrors(answers);
    used = answers.done;
    bench.say(`warming up ${target.name}: ${used} answers`);
  }
  await rig.load({ do: 'stop' });
}
