import { UNIT_TOKENS } from '../../domain/price.ts';
import { formatEur, parseEur } from '../../domain/pricing/money.ts';
import { NEEDED_PRICES, PRICES, priceTexts, type SomePrices } from '../../domain/settings/model.ts';
import type { Settings } from '../../domain/settings/setting.ts';
import type { Caller } from '../../operations/frame/caller.ts';
import type {
  Mistake,
  Namesake,
  NewBudget,
  NewFactor,
  PresentPrices,
  PricePreview,
  Repricing,
} from '../../operations/frame/refused.ts';
import type { KeyHolder } from '../../store/company/own-key.ts';
import { type Confirmation, ConfirmationNeeded } from './confirmation.ts';
import { companyOf, type PageContext, param } from './context.ts';
import type { Form } from './form.ts';
import { type Html, html } from './html.ts';
import { companyLink, table } from './layout.ts';
import { priceText, sentUnit } from './price-unit.ts';

/**
 * The user of a form, who asks for an operation. What rules have against the form is shown beside its fields; what is
 * allowed but may not be meant is asked.
 * @param settings the rows whose fields the form has
 * @param place puts mistakes beside fields that no row has, and returns the others
 */
export function callerOf(
  c: PageContext,
  form: Form,
  settings: Settings,
  place: (mistakes: readonly Mistake[]) => readonly Mistake[] = (mistakes) => mistakes,
): Caller {
  return {
    ...readerOf(c),
    isHeard: true,
    judge(mistakes) {
      for (const mistake of place(mistakes))
        if (mistake.severity !== 'ask') refuseField(form, settings, mistake);
      form.check();
      for (const { asked } of mistakes) {
        if (asked === undefined) continue;
        const question = questionOf(c, form, asked);
        if (!form.confirms(question.answer)) throw new ConfirmationNeeded(question);
      }
    },
  };
}

function questionOf(
  c: PageContext,
  form: Form,
  asked: NonNullable<Mistake['asked']>,
): Confirmation {
  if ('budget' in asked) return ofBudget(c, asked);
  if ('factor' in asked) return ofFactor(c, asked);
  if ('preview' in asked) return ofPrice(c, asked);
  return 'namesake' in asked ? ofName(asked) : ofPrices(c, form, asked);
}

/** The user of a page, as the caller of an operation without rules about its input. */
export function readerOf(c: PageContext): Omit<Caller, 'judge'> {
  const { services, session } = c.var;
  const { email, role } = session.user;
  const isMember = role === 'member' && companyOf(c) !== null;
  return { services, actor: email, role, member: isMember ? holderOf(c) : undefined };
}

/** The reader as the owner of keys in the company of the path. */
export function holderOf(c: PageContext): KeyHolder {
  const { user_id, email } = c.var.session.user;
  return { company_id: param(c, 'company'), user_id, email };
}

/** Puts a mistake beside its field; a box has no place for words, so that its mistake stands above the form too. */
export function refuseField(
  form: Form,
  settings: Settings,
  { pointer, detail, reason }: Mistake,
): void {
  const setting = settings[pointer.split('/')[1] ?? ''];
  const text = `${reason?.in(form.words.refusals) ?? detail}.`;
  form.refuse(setting?.field.name ?? '', text);
  if (setting?.kind === 'switch') form.refuse('', `${setting.field.label(form.words)} ${text}`);
}

/** The question before a new budget that is used up already. */
function ofBudget(c: PageContext, { name, isKey, period, budget, spent }: NewBudget): Confirmation {
  const { format } = c.var;
  const words = format.words.settings.usedUp;
  return {
    answer: `${period} budget ${formatEur(parseEur(budget))}`,
    title: words.title,
    text: html`<p>${words.text[period]({
      name: isKey ? words.key(name) : name,
      spent: html`<strong>${format.amount(spent)}</strong>`,
      budget: html`<strong>${format.amount(budget)}</strong>`,
    })}</p>`,
    button: words.save,
  };
}

/** The question before other prices for one company. */
function ofFactor(c: PageContext, asked: NewFactor): Confirmation {
  const { factor, would_eur, present } = asked;
  const { format } = c.var;
  const replaced =
    present &&
    html`<p>It takes the place of the factor <strong>${format.decimal(Number(present.factor))}</strong> for the same time, set by <strong>${present.by}</strong>.</p>`;
  return {
    answer: `factor ${factor} ${would_eur} ${present?.factor ?? ''}`,
    title: 'What the company would have paid',
    text: html`${wouldHave(c, asked, 'Its API calls', html`With the factor <strong>${format.decimal(Number(factor))}</strong>`)}${replaced ?? ''}${KEPT}`,
    button: 'Save the factor',
  };
}

/** What calls cost, and what they would have cost. */
function wouldHave(
  c: PageContext,
  { month, cost_eur, would_eur }: Pick<NewFactor, 'month' | 'cost_eur' | 'would_eur'>,
  calls: Html | string,
  at: Html | string,
): Html {
  const { format } = c.var;
  return html`<p>${calls} of ${format.month(`${month}-01`)} cost <strong>${format.amount(cost_eur)}</strong>. ${at} they would have cost <strong>${format.amount(would_eur)}</strong>.</p>`;
}

const KEPT = html`<p>Calls that are booked already keep their prices.</p>`;

/** The question before another price of a model. */
function ofPrice(c: PageContext, { slug, price, preview }: Repricing): Confirmation {
  const { format } = c.var;
  const name = html`<code>${slug}</code>`;
  const cells = {
    Company: (row: PricePreview['companies'][number]) => companyLink(row),
    Calls: ({ calls }: { calls: number }) => format.count(calls),
    Cost: ({ cost_eur }: { cost_eur: string }) => format.amount(cost_eur),
    'At this price': ({ would_eur }: { would_eur: string }) => format.amount(would_eur),
  };
  const text =
    preview === null
      ? html`<p>The calls of the last month to ${name} are too many to say here what they would have cost. <code>tollgate model set ${slug} --dry-run</code> with the same prices adds them up.</p>`
      : html`${wouldHave(c, preview, html`The calls to ${name}`, 'At this price')}${table('The companies that paid most', preview.companies, { cells, figures: ['Calls', 'Cost', 'At this price'] })}
${preview.notes.length === 0 ? '' : html`<ul>${preview.notes.map((note) => html`<li>${note}.</li>`)}</ul>`}`;
  return {
    answer: `price ${priceTexts(price)} ${preview?.would_eur ?? 'unknown'}`,
    title: 'What the last month would have cost',
    text: html`${text}${KEPT}`,
    button: 'Save the price',
  };
}

/** The question before a second company of a name. */
function ofName({ namesake }: Namesake): Confirmation {
  return {
    answer: `name ${namesake}`,
    title: 'There is a company of this name already',
    text: html`<p>Another company is called <strong>${namesake}</strong>, too. Lists and choices could not tell them apart.</p>`,
    button: 'Save it anyway',
  };
}

/** The question before prices take the place of others for the same time. */
function ofPrices(c: PageContext, form: Form, { present, mine, by }: PresentPrices): Confirmation {
  const unit = sentUnit(form);
  const shown = (prices: SomePrices) =>
    html`<strong>${priceTexts(prices, (price) => (price === 'none' ? price : priceText(c, unit, price)))}</strong>`;
  const tokens = NEEDED_PRICES.map((name) => PRICES[name].tokens).join(' and ');
  return {
    answer: `replace ${priceTexts(present)}`,
    title: 'There is a price for this time already',
    text: html`<p>From then on it is ${shown(present)} per ${UNIT_TOKENS[unit]} ${tokens} tokens, set by <strong>${by}</strong>. Yours, ${shown(mine)}, is not saved yet.</p>`,
    button: 'Save mine instead',
    link: { href: c.req.path.replace(/\/[^/]*$/, ''), text: 'Keep what is stored' },
  };
}
