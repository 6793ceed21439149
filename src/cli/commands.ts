import type { Operation } from '../operations/frame/row.ts';
import { type Command, command } from './frame/command.ts';

const migrate = command({
  name: 'migrate',
  summary: 'migrate the database; many replicas may do so at once',
  options: {},
  unmigrated: true,
  awaitsDatabase: true,
  async run({ migrate }) {
    const applied = await migrate();
    const lines = applied.map((name) => `Applied ${name}`);
    return { json: { applied }, text: lines.join('\n') || 'The database is at this version.' };
  },
});

/** The commands that follow from rows. */
const derived = async (rows: readonly Operation[]) =>
  (await import('./frame/derived.ts')).derived(rows);

/** What loads the commands of each noun, in the order of the help: a command needs those of its own noun alone. */
const NOUNS: Readonly<Record<string, () => Promise<readonly Command[]>>> = {
  migrate: async () => [migrate],
  status: async () => [(await import('./nouns/status.ts')).statusCommand],
  gateway: async () => [(await import('./nouns/status.ts')).gatewayForgetCommand],
  company: async () => [
    ...(await import('./nouns/company.ts')).companyCommands,
    ...(await import('./nouns/company-end.ts')).companyEndCommands,
  ],
  model: async () => [
    ...(await import('./nouns/model.ts')).modelCommands,
    ...(await import('./nouns/price.ts')).priceCommands,
    (await import('./nouns/catalogue.ts')).catalogueCommand,
  ],
  key: async () => (await import('./nouns/key.ts')).keyCommands,
  assistant: async () => derived((await import('../operations/assistant.ts')).assistantOperations),
  user: async () => (await import('./nouns/user.ts')).userCommands,
  group: async () => derived((await import('../operations/group.ts')).groupOperations),
  usage: async () => [
    (await import('./nouns/usage.ts')).usageCommand,
    ...(await import('./nouns/usage-change.ts')).usageChangeCommands,
    (await import('./nouns/margin.ts')).marginCommand,
  ],
  unusual: async () => derived((await import('../operations/unusual.ts')).unusualOperations),
  'end-user': async () => derived((await import('../operations/end-user.ts')).endUserOperations),
  'cost-center': async () =>
    derived((await import('../operations/cost-center.ts')).costCenterOperations),
  request: async () => [(await import('./nouns/request.ts')).requestCommand],
  ledger: async () => (await import('./nouns/ledger.ts')).ledgerCommands,
  statement: async () => (await import('./nouns/statement.ts')).statementCommands,
  alert: async () => (await import('./nouns/alert.ts')).alertCommands,
  event: async () => (await import('./nouns/event.ts')).eventCommands,
  token: async () => [
    ...(await import('./nouns/token.ts')).tokenCommands,
    ...(await derived((await import('../operations/token.ts')).tokenOperations)),
  ],
  apply: async () => (await import('./nouns/configuration.ts')).configurationCommands,
  'export-config': async () => (await import('./nouns/configuration.ts')).configurationCommands,
  import: async () => [(await import('./nouns/import.ts')).litellmImportCommand],
  demo: async () => [(await import('./nouns/demo.ts')).demoCommand],
  database: async () => [
    ...(await import('./nouns/backup.ts')).backupCommands,
    (await import('./nouns/distribution.ts')).distributionCommand,
  ],
};

/** The first words of all commands. */
export const COMMAND_NOUNS = Object.keys(NOUNS);

/** The commands whose first word is a noun; none for another word. */
export async function commandsOfNoun(noun: string): Promise<readonly Command[]> {
  const commands = Object.hasOwn(NOUNS, noun)
    ? await (NOUNS[noun] as () => Promise<readonly Command[]>)()
    : [];
  return commands.filter(({ name }) => name.split(' ')[0] === noun);
}

/** All commands that use the database, in the order of the help. */
export async function allCommands(): Promise<readonly Command[]> {
  return (await Promise.all(COMMAND_NOUNS.map(commandsOfNoun))).flat();
}
