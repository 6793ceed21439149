import { assistantOperations } from './assistants.ts';
import { auditOperations } from './audit.ts';
import { companyOperations } from './companies.ts';
import { companyEndOperations } from './company-end.ts';
import { eventOperations } from './events.ts';
import { keyOperations } from './keys.ts';
import { modelOperations } from './models.ts';
import type { Operation } from './operation.ts';
import { overviewOperations } from './overview.ts';
import { peopleOperations } from './people.ts';
import { priceOperations } from './prices.ts';
import { requestOperations } from './requests.ts';
import { statementOperations } from './statements.ts';
import { tokenOperations } from './tokens.ts';
import { usageOperations } from './usage.ts';
import { userOperations } from './users.ts';

/** Every operation of administration over HTTP. The routes, the checks of bodies and openapi.json are made from it. */
export const OPERATIONS: readonly Operation[] = [
  ...companyOperations,
  ...companyEndOperations,
  ...modelOperations,
  ...priceOperations,
  ...keyOperations,
  ...assistantOperations,
  ...peopleOperations,
  ...userOperations,
  ...usageOperations,
  ...requestOperations,
  ...auditOperations,
  ...overviewOperations,
  ...eventOperations,
  ...tokenOperations,
  ...statementOperations,
];
