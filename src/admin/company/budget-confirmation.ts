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
  const words = format.words.settings.usedUp;
  const answer = `budget ${formatEur(parseEur(budget))}`;
  if (form.confirms(answer)) return;
  throw new ConfirmationNeeded({
    answer,
    title: words.title,
    text: html`<p>${words.text({
      name,
      spent: html`<strong>${format.amount(spent)}</strong>`,
      budget: html`<strong>${format.amount(budget)}</strong>`,
    })}</p>`,
    button: words.save,
  });
}
