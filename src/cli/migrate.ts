import { type Command, command } from './command.ts';

export const migrateCommands: readonly Command[] = [
  command({
    name: 'migrate',
    summary: 'migrate the database; many replicas may do so at once',
    options: {},
    unmigrated: true,
    async run({ migrate }) {
      const applied = await migrate();
      const text =
        applied.length === 0 ? 'The database is at this version.' : applied.map((name) => `Applied ${name}`).join('\n');
      return { json: { applied }, text };
    },
  }),
];
