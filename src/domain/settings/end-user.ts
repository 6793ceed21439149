import { readAboveZero } from '../field.ts';
import * as schema from './schema.ts';
import type { Setting, Values } from './setting.ts';

/** Every column of `end_users` that people set. */
export const END_USER_BUDGET = {
  monthly_budget_eur: {
    kind: 'amount',
    schema: schema.described(
      schema.orNull(schema.aboveZero),
      'what the person may cost in a month, in place of what a key lets each of its end users cost; null: that',
    ),
    option: '--budget EUR',
    meaning:
      'what the person may cost in a month, in place of what a key lets each of its end users cost',
    read: readAboveZero,
    isNullable: true,
    field: {
      name: 'budget',
      label: ({ endUsers }) => endUsers.eur,
      hint: ({ endUsers }) => endUsers.eurHint,
    },
  } as Setting<string | null>,
};
export type EndUserBudget = Values<typeof END_USER_BUDGET>;
