import { assistantCommands } from './assistant.ts';
import type { Command } from './command.ts';
import { companyCommands } from './company.ts';
import { keyCommands } from './key.ts';
import { ledgerCommands } from './ledger.ts';
import { migrateCommands } from './migrate.ts';
import { modelCommands } from './model.ts';
import { usageCommands } from './usage.ts';
import { userCommands } from './user.ts';

/** All commands except `serve`, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  ...migrateCommands,
  ...companyCommands,
  ...modelCommands,
  ...keyCommands,
  ...assistantCommands,
  ...userCommands,
  ...usageCommands,
  ...ledgerCommands,
];
