import { isUsedUp } from '../../domain/ceiling.ts';
import { formatEur, parseEur } from '../../domain/money.ts';
import { ConfirmationNeeded } from '../page/confirmation.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { html } from '../page/html.ts';

interface NewBudget {
  /** Name of the company or key. */
  readonly name: string;
  /** EUR as exact decimal text. */
  readonly budget: string | null;
  /** The one that holds now. */
  readonly before: string | null;
  /** In the present month. */
  readonly spent: string;
}

/** Asks before a new budget that is used up already. @throws ConfirmationNeeded */
export function askIfUsedUp(form: Form, format: Format, { name, budget, before, spent }: NewBudget): void {
  if (budget === null || !isUsedUp({ budget, before, spent })) return;
  const answer = `budget ${formatEur(parseEur(budget))}`;
  if (form.confirms(answer)) return;
  throw new ConfirmationNeeded({
    answer,
    title: 'This budget is used up already',
    text: html`<p>${name} has spent <strong>${format.amount(spent)}</strong> this month. With a budget of <strong>${format.amount(budget)}</strong>, calls get 402 at once, until the month ends or the budget is raised.</p>`,
    button: 'Save it anyway',
  });
}
