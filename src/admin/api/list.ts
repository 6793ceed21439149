import { assistantOperations } from '../../operations/assistant.ts';
import { auditOperations } from '../../operations/audit.ts';
import { companyOperations } from '../../operations/company.ts';
import { companyEndOperations } from '../../operations/company-end.ts';
import { costCenterOperations } from '../../operations/cost-center.ts';
import { eventOperations } from '../../operations/event.ts';
import { groupOperations } from '../../operations/group.ts';
import { invitationOperations } from '../../operations/invitation.ts';
import { keyOperations } from '../../operations/key.ts';
import { modelOperations } from '../../operations/model.ts';
import { onboardingOperations } from '../../operations/onboarding/onboarding.ts';
import type { Operation } from '../../operations/operation.ts';
import { overviewOperations } from '../../operations/overview.ts';
import { priceOperations } from '../../operations/price.ts';
import { requestOperations } from '../../operations/request.ts';
import { statementOperations } from '../../operations/statement.ts';
import { tokenOperations } from '../../operations/token.ts';
import { usageOperations } from '../../operations/usage.ts';
import { usageChangeOperations } from '../../operations/usage-change.ts';
import { userOperations } from '../../operations/user.ts';
import { alertOperations } from '../../operations/users/alert.ts';
import { erasureOperations } from '../../operations/users/erasure.ts';

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
  ...costCenterOperations,
  ...requestOperations,
  ...auditOperations,
  ...overviewOperations,
  ...eventOperations,
  ...tokenOperations,
  ...statementOperations,
];
