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

/** What loads the commands of a noun: those that are written by hand, and the rows of which each with a command is one. */
interface Loads {
  written?(): Promise<readonly Command[]>;
  rows?(): Promise<readonly Operation[]>;
}

/** In the order of the help. A command needs what is loaded for its own noun alone. */
const NOUNS: Readonly<Record<string, Loads>> = {
  migrate: { written: async () => [migrate] },
  status: { written: async () => [(await import('./nouns/status.ts')).statusCommand] },
  gateway: { written: async () => [(await import('./nouns/status.ts')).gatewayForgetCommand] },
  company: {
    written: async () => [
      ...(await import('./nouns/company.ts')).companyCommands,
      ...(await import('./nouns/company-end.ts')).companyEndCommands,
    ],
    rows: async () => [
      ...(await import('../operations/company.ts')).companyOperations,
      ...(await import('../operations/company-end.ts')).companyEndOperations,
    ],
  },
  model: {
    written: async () => [
      ...(await import('./nouns/model.ts')).modelCommands,
      ...(await import('./nouns/price.ts')).priceCommands,
      (await import('./nouns/catalogue.ts')).catalogueCommand,
    ],
    rows: async () => [
      ...(await import('../operations/model.ts')).modelOperations,
      ...(await import('../operations/price.ts')).priceOperations,
    ],
  },
  key: {
    written: async () => (await import('./nouns/key.ts')).keyCommands,
    rows: async () => (await import('../operations/key.ts')).keyOperations,
  },
  assistant: {
    rows: async () => (await import('../operations/assistant.ts')).assistantOperations,
  },
  user: {
    written: async () => (await import('./nouns/user.ts')).userCommands,
    rows: async () => [
      ...(await import('../operations/user.ts')).userOperations,
      ...(await import('../operations/invitation.ts')).invitationOperations,
    ],
  },
  group: { rows: async () => (await import('../operations/group.ts')).groupOperations },
  usage: {
    written: async () => [
      (await import('./nouns/usage.ts')).usageCommand,
      ...(await import('./nouns/usage-change.ts')).usageChangeCommands,
      (await import('./nouns/margin.ts')).marginCommand,
    ],
    rows: async () => (await import('../operations/usage.ts')).usageOperations,
  },
  unusual: { rows: async () => (await import('../operations/unusual.ts')).unusualOperations },
  'end-user': { rows: async () => (await import('../operations/end-user.ts')).endUserOperations },
  'cost-center': {
    rows: async () => (await import('../operations/cost-center.ts')).costCenterOperations,
  },
  request: {
    written: async () => [(await import('./nouns/request.ts')).requestCommand],
    rows: async () => (await import('../operations/request.ts')).requestOperations,
  },
  ledger: { written: async () => (await import('./nouns/ledger.ts')).ledgerCommands },
  statement: {
    written: async () => (await import('./nouns/statement.ts')).statementCommands,
    rows: async () => (await import('../operations/statement.ts')).statementOperations,
  },
  alert: {
    written: async () => (await import('./nouns/alert.ts')).alertCommands,
    rows: async () => (await import('../operations/alert.ts')).alertOperations,
  },
  event: {
    written: async () => (await import('./nouns/event.ts')).eventCommands,
    rows: async () => (await import('../operations/event.ts')).eventOperations,
  },
  token: {
    written: async () => (await import('./nouns/token.ts')).tokenCommands,
    rows: async () => (await import('../operations/token.ts')).tokenOperations,
  },
  apply: { written: async () => (await import('./nouns/configuration.ts')).configurationCommands },
  'export-config': {
    written: async () => (await import('./nouns/configuration.ts')).configurationCommands,
  },
  import: { written: async () => [(await import('./nouns/import.ts')).litellmImportCommand] },
  demo: { written: async () => [(await import('./nouns/demo.ts')).demoCommand] },
  database: {
    written: async () => [
      ...(await import('./nouns/backup.ts')).backupCommands,
      (await import('./nouns/distribution.ts')).distributionCommand,
    ],
  },
};

/** The first words of all commands. */
export const COMMAND_NOUNS = Object.keys(NOUNS);

/** The commands whose first word is a noun; none for another word. */
export async function commandsOfNoun(noun: string): Promise<readonly Command[]> {
  if (!Object.hasOwn(NOUNS, noun)) return [];
  const { written, rows } = NOUNS[noun] as Loads;
  const own = ((await written?.()) ?? []).filter(({ name }) => name.split(' ')[0] === noun);
  const withCommand = ((await rows?.()) ?? []).filter(({ command }) => command?.noun === noun);
  if (withCommand.length === 0) return own;
  return [...own, ...(await import('./frame/derived.ts')).derived(withCommand)];
}

/** All commands that use the database, in the order of the help. */
export async function allCommands(): Promise<readonly Command[]> {
  return (await Promise.all(COMMAND_NOUNS.map(commandsOfNoun))).flat();
}
