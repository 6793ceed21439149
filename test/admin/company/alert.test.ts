import t from 'tap';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { eventStore } from '../../../src/store/events/event.ts';
import { sendsNothing, signedIn, startOffice } from '../people.ts';

const office = await startOffice(t, {}, sendsNothing);
const db = openDatabase({ url: office.databaseUrl });
t.teardown(() => db.close());
const store = eventStore(db, db);
const { company } = office.customer;
const owner = await signedIn(office, 'owner');

t.test(
  'what a budget has reached stands on the page of usage while it is true, and beside the name on all others',
  async (t) => {
    const plain = (html: string) => html.replaceAll(/<[^>]+>/g, '').replaceAll(/\s+/g, ' ');
    const usage = async () =>
      plain((await owner.get(`/companies/${company}/usage`, { 'accept-language': 'en' })).text);
    await office.sql`update companies set monthly_budget_eur = 10 where id = ${company}`;
    await office.sql`update api_keys set monthly_budget_eur = 5, name = 'CMS <b>' where company_id = ${company}`;
    await office.sql`insert into chat_usage (company_id, cost_eur) values (${company}, 8.5)`;
    t.notMatch(await usage(), /budget for .* is/, 'nothing before the alert');
    await store.look(null, { webhook: false, email: false, operators: [] });
    const first = await usage();
    t.match(first, /85% of the budget for \w+ \d{4} is used\./);
    const now = new Date();
    const [begins, ends] = [0, 1].map((n) =>
      Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + n),
    ) as [number, number];
    const elapsed = now.getTime() - begins;
    const passes = elapsed > 2 * 86_400_000 && (8.5 * (ends - begins)) / elapsed > 10;
    t.equal(
      / At this pace it is reached on (\d+ \w+|\w+ \d+)\./.test(first),
      passes,
      'and when it is reached at this pace',
    );
    for (const page of ['keys', 'models', 'assistants', 'settings']) {
      t.match(
        (await owner.get(`/companies/${company}/${page}`)).text,
        /class="dot" href="[^"]+\/usage" aria-label="A budget is nearly used"/,
        page,
      );
    }
    await office.sql`insert into chat_usage (company_id, cost_eur) values (${company}, 1.5)`;
    await office.sql`
    insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
      completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at)
    select billing_month(now()), gen_random_uuid(), ${company}, id, 'm', 'u', 'embeddings', 5000, 0, 5, 1, 0, 'upstream', 'completed', now()
    from api_keys where company_id = ${company}`;
    await store.look(null, { webhook: false, email: false, operators: [] });
    const both = await usage();
    t.match(both, /The budget for \w+ \d{4} is used up\. Calls are refused with 402/);
    t.match(
      both,
      /Key CMS &lt;b&gt; svc_\w{4}…: The budget for/,
      'and one of the key, whose name is text',
    );
    t.match(both, /used up\. Its calls are refused/, 'those of the key alone');
    t.match(
      (await owner.get(`/companies/${company}/usage`)).text,
      /Key <a href="[^"]+\/keys\/[\da-f-]{36}">CMS/,
    );
    const raise = `<a href="/companies/${company}/settings">the budget is raised</a>`;
    t.match((await owner.get(`/companies/${company}/usage`)).text, raise);
    const administrator = await signedIn(office, 'administrator');
    t.notMatch(
      (await administrator.get(`/companies/${company}/usage`)).text,
      raise,
      'who may not raise it is not led there',
    );
    t.match(
      both,
      /Notices about one more budgetKey CMS/,
      'behind a line: notices do not push the page',
    );
    await office.sql`update companies set monthly_budget_eur = 1000000 where id = ${company}`;
    await office.sql`update api_keys set monthly_budget_eur = null where company_id = ${company}`;
    t.notMatch(
      await usage(),
      /budget for \w+ \d{4} is (used|reached)/,
      'gone as soon as it is not true any more',
    );
  },
);
