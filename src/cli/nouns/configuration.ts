import { readText } from '../../domain/field.ts';
import { pendingMigrations } from '../../store/schema/migrate.ts';
import { stepsText } from '../apply/difference.ts';
import { command, Failure, flag } from '../frame/command.ts';
import { orDryRun } from '../frame/dry-run.ts';
import { inputName, readInput } from '../frame/files.ts';

const MOST_BYTES = 16 * 1_048_576;

export const configurationCommands = [
  command({
    name: 'apply',
    summary:
      'make companies, models, keys, assistants and users what a file says, all of it or nothing',
    operand: {
      shown: 'FILE',
      meaning: 'a YAML or JSON file; - for standard input',
      read: readText,
    },
    options: { dryRun: flag('--dry-run', 'only print what would be done') },
    unmigrated: true,
    awaitsDatabase: true,
    notes: `Migrates the database first, but not with --dry-run. What the file does not name stays as it is; "absent: true" removes. A second run changes nothing.
Secrets are references: "value: { env: NAME }" or "value: { file: PATH }".
"tollgate export-config" prints such a file from what is there.`,
    async run({ db, migrate, transact, config, env, stdin }, { dryRun }, path) {
      // loaded only here: no other command needs the parser
      const [{ apply }, { readWanted }] = await Promise.all([
        import('../apply/apply.ts'),
        import('../apply/read.ts'),
      ]);
      const file = readWanted(await readInput(path, stdin, MOST_BYTES), inputName(path));
      if (!dryRun) await migrate();
      else if ((await pendingMigrations(db)).length > 0) {
        throw new Failure(
          'the database is not at this version; run "tollgate migrate", then try again',
        );
      }
      const { keyPrefix } = config;
      const steps = await orDryRun({ transact }, dryRun, (sql) =>
        apply(sql, file, { keyPrefix, env }),
      );
      return { json: { dry_run: dryRun, steps }, text: stepsText(steps, dryRun) };
    },
  }),
  command({
    name: 'export-config',
    summary: 'print what is there as a file for "tollgate apply", without secrets',
    options: {},
    async run({ transact }) {
      const { exportConfiguration, yamlOf } = await import('../apply/export.ts');
      const configuration = await transact(exportConfiguration);
      return { json: configuration, text: yamlOf(configuration).trimEnd() };
    },
  }),
];
