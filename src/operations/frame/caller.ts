import type { Calendar } from '../../domain/month.ts';
import type { Clock } from '../../domain/ports.ts';
import type { Role } from '../../domain/user.ts';
import type { KeyHolder } from '../../store/company/own-key.ts';
import type { FocusNames } from '../../store/usage/focus.ts';
import type { Mistake } from './refused.ts';

/** What operations know of this deployment. */
export interface OperationServices {
  readonly keyPrefix: string;
  readonly calendar: Calendar;
  readonly clock: Clock;
  /** The currency in which the upstream tells its own cost, and the EUR that a unit is worth; null: not known. */
  readonly upstreamCurrency: string;
  readonly upstreamRate: string | null;
  /** What the operator calls itself, and the lines of its letterhead. */
  readonly brand: FocusNames;
}

/**
 * Who asks for an operation. A face makes it: a page of its session, a command, HTTP of its token, `apply` of its file.
 * Operations run in a transaction of their face, which names the actor to the audit log.
 */
export interface Caller {
  readonly services: OperationServices;
  /** As the audit log names it. */
  readonly actor: string;
  readonly role: Role;
  /** A member of a company, who reaches the own keys alone; absent: somebody else. */
  readonly member?: KeyHolder | undefined;
  /**
   * Takes what rules have against an input, before anything is written. A face refuses it (and throws), asks its user, or
   * warns and lets it pass: `Mistake.severity` says what it may.
   */
  judge(mistakes: readonly Mistake[]): void;
  /** It has somebody to ask or to tell, so what another price would have cost is worked out. */
  readonly isHeard?: true;
}
