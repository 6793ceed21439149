import { removeDemo } from '../../operations/demo.ts';
import { askedFirst } from '../page/confirmation.ts';
import { change, type PageContext, type Route } from '../page/context.ts';
import { html } from '../page/html.ts';
import { emptyText, page } from '../page/layout.ts';

/** Removes what `make run` created on its first start. */
export const demoRoutes: readonly Route[] = askedFirst('/demo/remove', 'model.write', ask, remove);

async function ask() {
  const text = html`<p>The demo company goes with its keys and its assistant, unless people use it, and so do the demo models that nothing else uses. Its ledger rows and your account stay.</p>`;
  return { title: 'Remove the demo?', button: 'Remove the demo', back: '/models', text };
}

async function remove(c: PageContext): Promise<Response> {
  const { removed, kept } = await change(c, removeDemo);
  const lines = (title: string, texts: readonly string[]) =>
    texts.length === 0
      ? ''
      : html`<h2>${title}</h2><ul>${texts.map((text) => html`<li>${text}</li>`)}</ul>`;
  const body = html`<h1>The demo</h1><section class="card" role="status">
${removed.length + kept.length === 0 ? emptyText('There was nothing to remove.') : ''}${lines('Removed', removed)}${lines('Kept', kept)}
<p><a href="/models">Back to the models</a></p></section>`;
  return page(c, 'The demo', body);
}
