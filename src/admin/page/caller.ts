import { formatEur, parseEur } from '../../domain/money.ts';
import type { Settings } from '../../domain/settings/setting.ts';
import type { Caller } from '../../operations/caller.ts';
import type { Mistake, NewBudget } from '../../operations/problem.ts';
import { ConfirmationNeeded } from './confirmation.ts';
import type { PageContext } from './context.ts';
import type { Form } from './form.ts';
import type { Format } from './format.ts';
import { html } from './html.ts';

/**
 * The user of a form, who asks for an operation. What rules have against the form is shown beside its fields; what is
 * allowed but may not be meant is asked.
 * @param settings the rows whose fields the form has
 */
export function callerOf(c: PageContext, form: Form, settings: Settings): Caller {
  const { services, session } = c.var;
  return {
    services,
    actor: session.user.email,
    role: session.user.role,
    judge(mistakes) {
      for (const mistake of mistakes) if (mistake.severity !== 'ask') refuseField(form, settings, mistake);
      form.check();
      for (const { asked } of mistakes) if (asked !== undefined) askIfUsedUp(form, c.var.format, asked);
    },
  };
}

/** Puts a mistake beside its field; a box has no place for words, so that its mistake stands above the form too. */
export function refuseField(form: Form, settings: Settings, { pointer, detail, reason }: Mistake): void {
  const setting = settings[pointer.split('/')[1] ?? ''];
  const text = `${reason?.in(form.words.refusals) ?? detail}.`;
  form.refuse(setting?.field.name ?? '', text);
  if (setting?.kind === 'switch') form.refuse('', `${setting.field.label(form.words)} ${text}`);
}

/** Asks before a new budget that is used up already. @throws ConfirmationNeeded */
function askIfUsedUp(form: Form, format: Format, { name, isKey, budget, spent }: NewBudget): void {
  const words = format.words.settings.usedUp;
  const answer = `budget ${formatEur(parseEur(budget))}`;
  if (form.confirms(answer)) return;
  throw new ConfirmationNeeded({
    answer,
    title: words.title,
    text: html`<p>${words.text({
      name: isKey ? words.key(name) : name,
      spent: html`<strong>${format.amount(spent)}</strong>`,
      budget: html`<strong>${format.amount(budget)}</strong>`,
    })}</p>`,
    button: words.save,
  });
}
