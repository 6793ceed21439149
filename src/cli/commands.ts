import { alertCommands } from './alert.ts';
import { assistantCommands } from './assistant.ts';
import { backupCommands } from './backup.ts';
import { type Command, command } from './command.ts';
import { companyCommands } from './company.ts';
import { companyEndCommands } from './company-end.ts';
import { configurationCommands } from './configuration.ts';
import { demoCommand } from './demo.ts';
import { distributionCommand } from './distribution.ts';
import { eventCommands } from './event.ts';
import { gatewayForgetCommand } from './gateway.ts';
import { keyCommands } from './key.ts';
import { ledgerCommands } from './ledger.ts';
import { marginCommand } from './margin.ts';
import { modelCommands } from './model.ts';
import { modelImportCommand } from './model-import.ts';
import { priceCommands } from './price.ts';
import { requestCommand } from './request.ts';
import { statementCommands } from './statement.ts';
import { statusCommand } from './status.ts';
import { tokenCommands } from './token.ts';
import { usageCommand } from './usage.ts';
import { userCommands } from './user.ts';

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

/** All commands except `serve`, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  migrate,
  statusCommand,
  gatewayForgetCommand,
  ...companyCommands,
  ...companyEndCommands,
  ...modelCommands,
  ...priceCommands,
  modelImportCommand,
  ...keyCommands,
  ...assistantCommands,
  ...userCommands,
  usageCommand,
  marginCommand,
  requestCommand,
  ...ledgerCommands,
  ...statementCommands,
  ...alertCommands,
  ...eventCommands,
  ...tokenCommands,
  ...configurationCommands,
  demoCommand,
  ...backupCommands,
  distributionCommand,
];
