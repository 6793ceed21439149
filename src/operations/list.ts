import { alertOperations } from './alert.ts';
import { assistantOperations } from './assistant.ts';
import { auditOperations } from './audit.ts';
import { companyOperations } from './company.ts';
import { companyEndOperations } from './company-end.ts';
import { costCenterOperations } from './cost-center.ts';
import { endUserOperations } from './end-user.ts';
import { erasureOperations } from './erasure.ts';
import { eventOperations } from './event.ts';
import type { Operation } from './frame/row.ts';
import { groupOperations } from './group.ts';
import { invitationOperations } from './invitation.ts';
import { keyOperations } from './key.ts';
import { modelOperations } from './model.ts';
import { onboardingOperations } from './onboarding.ts';
import { overviewOperations } from './overview.ts';
import { priceOperations } from './price.ts';
import { requestOperations } from './request.ts';
import { statementOperations } from './statement.ts';
import { tokenOperations } from './token.ts';
import { unusualOperations } from './unusual.ts';
import { usageOperations } from './usage.ts';
import { usageChangeOperations } from './usage-change.ts';
import { userOperations } from './user.ts';

/** Every operation of administration over HTTP. The routes, the checks of bodies and openapi.json are made from it. */
export const OPERATIONS: readonly Operation[] = [
  ...companyOperations,
  ...onboardingOperations,
  ...companyEndOperations,
  ...modelOperations,
  ...priceOperations,
  ...keyOperations,
  ...assistantOperations,
  ...invitationOperations,
  ...userOperations,
  ...alertOperations,
  ...erasureOperations,
  ...groupOperations,
  ...usageOperations,
  ...usageChangeOperations,
  ...unusualOperations,
  ...costCenterOperations,
  ...endUserOperations,
  ...requestOperations,
  ...auditOperations,
  ...overviewOperations,
  ...eventOperations,
  ...tokenOperations,
  ...statementOperations,
];
