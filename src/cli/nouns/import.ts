import { readText, readUsdRate } from '../../domain/field.ts';
import { digestOf } from '../../domain/key.ts';
import { differences } from '../../domain/settings/difference.ts';
import { litellmPlan } from '../../domain/settings/litellm.ts';
import type { Row } from '../../domain/settings/litellm-rows.ts';
import { importLitellm, type Kept } from '../../operations/litellm-import.ts';
import { NoLitellm, readLitellm } from '../../store/company/litellm.ts';
import { DatabaseRefused, DatabaseUnavailable } from '../../store/connection/errors.ts';
import { askModelInfo } from '../../upstream/router-models.ts';
import { stepsText, valueText } from '../apply/difference.ts';
import { type Context, command, Failure, flag, optional, required } from '../frame/command.ts';
import { ACTOR } from '../frame/database.ts';
import { orDryRun } from '../frame/dry-run.ts';
import { sections } from '../frame/text.ts';
import { routerOf } from './model.ts';

export const litellmImportCommand = command({
  name: 'import litellm',
  summary: 'bring teams, keys, budgets, models and prices of a LiteLLM database',
  options: {
    database: required(
      '--database URL',
      readText,
      "LiteLLM's own DATABASE_URL; it is read, and never changed",
    ),
    usdRate: optional(
      '--usd-rate EUR_PER_USD',
      readUsdRate,
      'EUR for one USD, such as 0.92; needed for budgets and prices',
    ),
    dryRun: flag('--dry-run', 'print what would come and what would not, and change nothing'),
  },
  notes: `Teams become companies, and so do people with keys of no team. Holders keep their keys: LiteLLM and Tollgate store the same digest. LiteLLM stays the router at UPSTREAM_URL, which is asked for the models of its configuration file and for prices.
What came once stays as it is here: a second run brings only what is new. .deploy/moving.md has the steps.`,
  async run(context, { database, usdRate = null, dryRun }) {
    const tables = await readLitellm(database).catch(explain);
    const router = await askedRouter(context);
    const { upstreamApiKey: own } = context.config;
    const plan = litellmPlan(
      tables,
      router,
      usdRate,
      own === null ? [] : [digestOf(own)],
      Date.now(),
    );
    if (plan.unrated > 0)
      throw new Failure(
        `${plan.unrated} budgets and prices there are in USD: give --usd-rate, what one USD is worth in EUR`,
      );
    const { came, kept, left } = await orDryRun(context, dryRun, (sql) =>
      importLitellm(sql, ACTOR, plan),
    );
    const steps = came.map(({ done, what, settings, notes }) => {
      const set = differences({}, settings).map(({ member, to }) => `${member}: ${valueText(to)}`);
      return { done, what, changes: [...set, ...notes] };
    });
    const differing = kept.map(toldKept).filter(({ changes }) => changes.length > 0);
    const counts = `${kept.length} are here already and stay as they are; ${left.length} do not come.`;
    const lines = [
      ...differing.map(({ what, changes }) =>
        [`= ${what}`, ...changes.map((change) => `    ${change}`)].join('\n'),
      ),
      ...left.map(({ what, why }) => `! ${what}: ${why}`),
    ];
    return {
      json: { dry_run: dryRun, steps, kept: kept.map(toldKept), left },
      text: `${sections(lines.join('\n'), stepsText(steps, dryRun))}\n${counts}`,
    };
  },
});

/** Something that stays as it is, and what is another there. */
function toldKept({ what, now, settings }: Kept) {
  const changes = differences(now, settings).map(
    ({ member, from, to }) => `${member}: ${valueText(from)} here, ${valueText(to)} there`,
  );
  return { what, changes };
}

/** What the router tells of its models; null: nothing, of which the command warns. */
async function askedRouter({ config, warn }: Context): Promise<readonly Row[] | null> {
  const router = routerOf(config);
  const lost =
    'models of the configuration file of LiteLLM, and the prices that it knows itself, did not come';
  if (router === null) {
    warn(`UPSTREAM_URL is not set: ${lost}`);
    return null;
  }
  return askModelInfo(router).catch((error: Error) => {
    warn(`${error.message} So ${lost}`);
    return null;
  });
}

/** @throws Failure that says whose database it is */
function explain(error: unknown): never {
  const isKnown = [NoLitellm, TypeError, DatabaseUnavailable, DatabaseRefused].some(
    (kind) => error instanceof kind,
  );
  throw isKnown ? new Failure(`--database: ${(error as Error).message}`) : error;
}
