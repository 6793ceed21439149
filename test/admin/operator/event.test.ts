import t from 'tap';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { eventStore } from '../../../src/store/events/event.ts';
import { sendsNothing, signedIn, startOffice, textOf } from '../people.ts';

const office = await startOffice(t, {}, sendsNothing);
const db = openDatabase({ url: office.databaseUrl });
t.teardown(() => db.close());
const store = eventStore(db, db);
const owner = await signedIn(office, 'owner');
const operator = await signedIn(office, 'operator');
const { company } = office.customer;

t.test(
  'changes of keys and budget alerts stand in one list with what became of them',
  async (t) => {
    await office.sql`update companies set name = 'Late <i>', monthly_budget_eur = 10 where id = ${company}`;
    await office.sql`insert into chat_usage (company_id, cost_eur) values (${company}, 10)`;
    await store.look(null, { webhook: true, email: true, operators: ['ops@gate.example'] });
    const due = await store.due('webhook', 100, []);
    for (const delivery of due) {
      if (delivery.event.type.startsWith('budget.'))
        await store.failed(delivery, 'status 500', null);
      else await store.delivered(delivery);
    }
    const [mail] = await store.due('email', 1, ['ops@gate.example']);
    if (mail !== undefined) await store.failed(mail, 'EENVELOPE 550', 60);

    const { text } = await operator.get('/events');
    t.match(text, /Late &lt;i&gt;/);
    const [{ id, name }] = await office.sql<
      [{ id: string; name: string }]
    >`select id, name from api_keys where company_id = ${company}`;
    t.match(text, `<a href="/companies/${company}/keys/${id}">${name}</a>`, 'the key is a link');
    t.match(textOf(text), /Key created .*Late &lt;i&gt; .* Webhook delivered /);
    t.match(textOf(text), /Budget: threshold reached .*100\s?% .* the gateway Webhook given up/);
    t.match(text, 'title="given up status 500"', 'the error is the tooltip');
    t.match(text, /example failing EENVELOPE 550/);
    t.match(textOf(text), /Webhook: status 500 since .*, \d+ given up Send again/);
    t.match(textOf(text), /E-mail: EENVELOPE 550 since .*, 1 waiting , next attempt /);
    const [, month] =
      /<a href="\/companies\/[\da-f-]+\/usage\?month=(\d{4}-\d\d)">100/.exec(text) ?? [];
    t.equal(month, new Date().toISOString().slice(0, 7), 'the figure leads to its month');
    const undelivered = textOf((await operator.get('/events?kind=budget&state=undelivered')).text);
    t.match(undelivered, /threshold reached/);
    t.notMatch(undelivered.replace(/<select.*?<\/select>/gs, ''), /Webhook delivered/);
    t.match((await operator.get('/events?kind=statement')).text, /There are no such events/);
    t.match(
      (await operator.get(`/events?company=${company}`)).text,
      /Only events of <strong>Late &lt;i&gt;<\/strong>/,
    );
    t.match(
      (await operator.get('/events?kind=keys')).text,
      /must be /,
      'a mistake in the address is told',
    );
  },
);

t.test('an alert leads to what it tells of', async (t) => {
  const body = { month: '2026-10', threshold: '100' };
  await office.sql`insert into events (company_id, kind, subject, body) values
    (${company}, 'end_user.threshold', ${company}, ${office.sql.json({ ...body, count: 3, end_user: null })}),
    (${company}, 'cost_center.threshold', ${company}, ${office.sql.json({ ...body, cost_center: 'Editors' })})`;
  const { text } = await operator.get('/events');
  t.match(text, /\/end-users\?month=2026-10&amp;show=reached">100.*3 end users/);
  t.match(text, /\/usage\?cost_center=Editors&amp;month=2026-10">100/);
});

t.test('an operator sends an event again, whatever became of it', async (t) => {
  const { text } = await operator.get('/events?state=dead');
  const [, path = ''] = /action="(\/events\/[0-9a-f-]+\/replay)"/.exec(text) ?? [];
  const sent = await operator.post(path);
  t.match(sent, { status: 303 });
  t.equal(sent.headers.get('location'), '/events?done=replayed');
  t.match(
    (await operator.get('/events?done=replayed')).text,
    /The event is sent again within seconds/,
  );
  t.match((await operator.get('/events?state=dead')).text, /There are no such events/);
  t.equal((await store.due('webhook', 10, [])).length, 1);
  t.equal((await operator.post('/events/00000000-0000-4000-8000-000000000000/replay')).status, 404);
  t.equal((await owner.get('/events')).status, 403);
  t.equal((await owner.post(path)).status, 403);
});

t.test('all deliveries that one reason holds up are sent again by one button', async (t) => {
  await office.sql`update api_keys set revoked_at = now() where company_id = ${company}`;
  await store.look(null, { webhook: true, email: false, operators: [] });
  const due = await store.due('webhook', 100, []);
  t.ok(due.length >= 2, `${due.length}`);
  for (const [n, delivery] of due.entries())
    await store.failed(delivery, n === 0 ? 'timeout <b>' : 'status 503', 3600);
  const { text } = await operator.get('/events');
  t.match(textOf(text), new RegExp(`Webhook: status 503 since .*, ${due.length - 1} waiting`));
  t.match(text, '<code>timeout &lt;b&gt;</code>');
  const fault = { channel: 'webhook', error: 'status 503', state: 'pending' };
  t.equal((await owner.post('/events/replay', fault)).status, 403);
  t.equal((await operator.post('/events/replay', { ...fault, channel: 'pigeon' })).status, 422);
  t.equal(
    (await operator.post('/events/replay', fault)).headers.get('location'),
    '/events?done=replayed',
  );
  t.equal((await store.due('webhook', 100, [])).length, due.length - 1, 'no other waits less');
  t.notMatch(textOf(await operator.get('/events')), 'status 503 since');
  t.match(textOf(await operator.get('/events')), 'Webhook: timeout');
});

t.test('more than a page of events is read page by page', async (t) => {
  await office.sql`insert into events (company_id, kind, subject, body, told)
    select ${company}, 'statement.closed', 'S-' || n, '{}', n > 50 from generate_series(1, 60) as n`;
  const first = (await operator.get('/events?kind=statement')).text;
  t.match(first, /title="S-60"/);
  t.match(first, /no webhook/);
  t.match(first, /on its way/);
  const [, next = ''] = /rel="next" href="([^"]+)"/.exec(first) ?? [];
  const second = (await operator.get(next.replaceAll('&amp;', '&'))).text;
  t.match(second, /title="S-1"/);
  t.notMatch(second, /title="S-60"|rel="next"/);
});
