import { assistantOperations } from './assistants.ts';
import { companyOperations } from './companies.ts';
import { eventOperations } from './events.ts';
import { keyOperations } from './keys.ts';
import { modelOperations } from './models.ts';
import type { Operation } from './operation.ts';
import { reportOperations } from './reports.ts';
import { statementOperations } from './statements.ts';
import { userOperations } from './users.ts';

/** Every operation of administration over HTTP. The routes, the checks of bodies and openapi.json are made from it. */
export const OPERATIONS: readonly Operation[] = [
  ...companyOperations,
  ...modelOperations,
  ...keyOperations,
  ...assistantOperations,
  ...userOperations,
  ...reportOperations,
  ...eventOperations,
  ...statementOperations,
];
