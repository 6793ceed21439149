import { OPERATIONS } from '../operations/list.ts';
import { type Command, command } from './frame/command.ts';
import { derived } from './frame/derived.ts';
import { alertCommands } from './nouns/alert.ts';
import { backupCommands } from './nouns/backup.ts';
import { catalogueCommand } from './nouns/catalogue.ts';
import { companyCommands } from './nouns/company.ts';
import { companyEndCommands } from './nouns/company-end.ts';
import { configurationCommands } from './nouns/configuration.ts';
import { demoCommand } from './nouns/demo.ts';
import { distributionCommand } from './nouns/distribution.ts';
import { eventCommands } from './nouns/event.ts';
import { litellmImportCommand } from './nouns/import.ts';
import { keyCommands } from './nouns/key.ts';
import { ledgerCommands } from './nouns/ledger.ts';
import { marginCommand } from './nouns/margin.ts';
import { modelCommands } from './nouns/model.ts';
import { priceCommands } from './nouns/price.ts';
import { requestCommand } from './nouns/request.ts';
import { statementCommands } from './nouns/statement.ts';
import { gatewayForgetCommand, statusCommand } from './nouns/status.ts';
import { tokenCommands } from './nouns/token.ts';
import { usageCommand } from './nouns/usage.ts';
import { usageChangeCommands } from './nouns/usage-change.ts';
import { userCommands } from './nouns/user.ts';

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

const nounOf = ({ name }: Command): string => name.split(' ')[0] as string;
/** The commands of rows, by their noun. */
const DERIVED = Map.groupBy(derived(OPERATIONS), nounOf);
const ofNoun = (noun: string): readonly Command[] => DERIVED.get(noun) ?? [];

/** All commands except `serve`, in the order of the help. */
export const COMMANDS: readonly Command[] = withDerived([
  migrate,
  statusCommand,
  gatewayForgetCommand,
  ...companyCommands,
  ...companyEndCommands,
  ...modelCommands,
  ...priceCommands,
  catalogueCommand,
  ...keyCommands,
  ...ofNoun('assistant'),
  ...userCommands,
  ...ofNoun('group'),
  usageCommand,
  ...ofNoun('end-user'),
  ...usageChangeCommands,
  ...ofNoun('cost-center'),
  marginCommand,
  requestCommand,
  ...ledgerCommands,
  ...statementCommands,
  ...alertCommands,
  ...eventCommands,
  ...tokenCommands,
  ...configurationCommands,
  litellmImportCommand,
  demoCommand,
  ...backupCommands,
  distributionCommand,
]);

/** Adds the commands of rows whose other commands are written by hand, behind those. */
function withDerived(written: readonly Command[]): Command[] {
  return written.flatMap((command, at) => {
    const noun = nounOf(command);
    const isLast = !written.slice(at + 1).some((other) => nounOf(other) === noun);
    return isLast
      ? [command, ...ofNoun(noun).filter((each) => !written.includes(each))]
      : [command];
  });
}
