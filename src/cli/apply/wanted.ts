import type { PriceTexts } from '../../domain/settings/model.ts';
import type { Role } from '../../domain/user.ts';
import type { AssistantChanges } from '../../store/company/assistant.ts';
import type { CompanyChanges } from '../../store/company/company.ts';
import type { KeyChanges } from '../../store/company/key.ts';
import type { ModelChanges } from '../../store/company/model.ts';

/** The wanted state, as the file tells it: checked by schema.ts. Members that are left out stay as they are. */
export interface Wanted {
  readonly models?: readonly WantedModel[];
  readonly companies?: readonly WantedCompany[];
  readonly operators?: readonly WantedUser[];
  readonly oidc_groups?: readonly WantedGroup[];
}

/** Where a secret is. */
export type SecretReference = { readonly env: string } | { readonly file: string };

export interface Removable {
  readonly absent?: true;
}

/** A price since a date: an instant, or the beginning of a day in the billing time zone. */
export interface WantedPrice extends Partial<PriceTexts>, Removable {
  readonly valid_from: string;
}

export interface WantedModel extends ModelChanges, Removable {
  readonly slug: string;
  readonly prices?: readonly WantedPrice[];
  readonly cost_prices?: readonly WantedPrice[];
}

export interface WantedAssistant extends AssistantChanges, Removable {
  readonly id?: string;
  readonly name: string;
}

export interface WantedKey extends Omit<KeyChanges, 'expires_at'>, Removable {
  readonly id?: string;
  readonly name: string;
  readonly expires_at?: string | null;
  readonly value?: SecretReference;
}

export interface WantedUser extends Removable {
  readonly email: string;
  readonly role?: Role;
  readonly password?: SecretReference;
}

/** The budget of a cost centre. */
export interface WantedCostCenter extends Removable {
  readonly name: string;
  readonly monthly_budget_eur?: string;
}

/** A group of the identity provider. */
export interface WantedGroup extends Removable {
  readonly name: string;
  readonly role?: Role;
}

export interface WantedCompany extends Omit<CompanyChanges, 'disable' | 'enable'> {
  readonly id?: string;
  readonly name: string;
  readonly disabled_model_slugs?: readonly string[];
  readonly models?: readonly WantedModel[];
  readonly assistants?: readonly WantedAssistant[];
  readonly keys?: readonly WantedKey[];
  readonly users?: readonly WantedUser[];
  readonly cost_centers?: readonly WantedCostCenter[];
  readonly oidc_groups?: readonly WantedGroup[];
}
