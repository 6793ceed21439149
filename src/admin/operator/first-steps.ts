import { putFirstStepsAway } from '../../operations/onboarding.ts';
import { companyToCall, type FirstSteps, newestCompany } from '../../store/usage/first-steps.ts';
import type { RouterAnswer } from '../../upstream/router-models.ts';
import { changeAsOperator, formAt, type PageContext, type Route, read } from '../page/context.ts';
import { actionForm } from '../page/field.ts';
import { type Html, html } from '../page/html.ts';
import { callStep, isWatched, stepsCard } from '../usage/first-steps.ts';

/** The list of first steps on the first page of operators, from an empty database to the first call. */
export const firstStepRoutes: readonly Route[] = [
  formAt('/first-call/dismiss', 'overview.dismiss', dismiss),
];

/** The list, until all of it is done or an operator has put it away. Only then the router is asked, for 3 s at most. */
export async function operatorSteps(c: PageContext, facts: FirstSteps): Promise<Html | string> {
  const { isDismissed, model, company, owner, key, call } = facts;
  if (isDismissed || (!isWatched(c) && model && company && owner && key && call)) return '';
  const { router } = c.var.services;
  const [answer, newest] = await Promise.all([
    router.ask(),
    read(c, call ? newestCompany : companyToCall),
  ]);
  const at = newest === null ? '' : `/companies/${newest.id}`;
  const link = (path: string, text: string): Html => html`<a href="${path}">${text}</a>`;
  const ofCompany = (path: string, text: string, rest: string): Html | string =>
    newest === null
      ? 'It needs a company.'
      : html`${link(at + path, text)} of ${newest.name}${rest}`;
  const paragraph = (isDone: boolean, text: Html | string) => (isDone ? '' : html`<p>${text}</p>`);
  const steps = [
    {
      title: 'The model router answers',
      isDone: answer.isReachable,
      text: routerText(answer, router.address.isDemo),
    },
    {
      title: 'A model, with its prices',
      isDone: model,
      text: paragraph(
        model,
        html`${link('/models/new', 'Add a model')}: chosen from what the router has.`,
      ),
    },
    {
      title: 'A company',
      isDone: company,
      text: paragraph(
        company,
        html`${link('/companies/new', 'Create a company')} with its owner and its first key.`,
      ),
    },
    {
      title: 'Its owner',
      isDone: owner,
      text: paragraph(
        owner,
        ofCompany('/users', 'Invite the owner', ': who gets a link to join with.'),
      ),
    },
    {
      title: 'A key',
      isDone: key,
      text: paragraph(key, ofCompany('/keys#create', 'Create a key', '. It is shown once.')),
    },
    {
      title: c.var.format.words.firstSteps.call,
      isDone: call,
      text: await callStep(c, {
        company: newest?.id ?? '',
        key: newest?.key ?? null,
        isBooked: call,
        ofAll: true,
      }),
    },
  ];
  const foot = actionForm(c, '/first-call/dismiss', 'Hide checklist', 'quiet');
  return stepsCard(c, steps, foot);
}

function routerText({ reason, names, isReachable }: RouterAnswer, isDemo: boolean): Html | string {
  if (isDemo)
    return html`<p>The demo answers in its place. Set <code>UPSTREAM_URL</code> to use your own.</p>`;
  if (reason === null)
    return html`<p class="muted">It offers ${names.length === 1 ? 'one model' : `${names.length} models`}.</p>`;
  return html`<p class="${isReachable ? 'muted' : 'wrong'}">${reason}</p>`;
}

async function dismiss(c: PageContext): Promise<Response> {
  await changeAsOperator(c, putFirstStepsAway);
  return c.redirect('/', 303);
}
