import { wholeNumber } from '../../domain/field.ts';
import { distribute } from '../../store/schema/distribution.ts';
import { command, flag, optional } from '../frame/command.ts';

const SHARDS = 32;

export const distributionCommand = command({
  name: 'database distribute',
  summary: 'spread the ledger over the servers of a Citus cluster',
  options: {
    shards: optional(
      '--shards N',
      wholeNumber(1024),
      `parts that companies are divided into; default ${SHARDS}`,
    ),
    dryRun: flag('--dry-run', 'print the statements and change nothing'),
  },
  notes:
    'For a ledger that one server cannot hold or cannot write fast enough; sql/growth.md tells when that is. DATABASE_URL is the address of the coordinator. The ledger, its sums and the request trail are divided by company over the workers; all other tables stay on the coordinator. The tables are copied in one transaction. Requests are answered meanwhile, and their records wait in the spools. Run it again after an upgrade: it does what is not done yet.',
  async run({ db }, { shards = SHARDS, dryRun }) {
    const { statements, workers } = await distribute(db, { shards, dryRun });
    const done = `The ledger is spread over ${workers.join(', ')}.`;
    const text =
      dryRun && statements.length > 0
        ? statements.map((statement) => `${statement};`).join('\n')
        : done;
    return { json: { workers, statements, applied: !dryRun }, text };
  },
});
