import t from 'tap';
import { startMailbox, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import { type GatewayProcess, metric } from './gateway.ts';
import { installed, startPooler } from './pooler.ts';
import { note } from './results.ts';
import { faultWorld, LONG } from './world.ts';

const KILLS = LONG ? 20 : 2;
const REPLICAS = LONG ? 3 : 2;
const COMPANIES = 8; // that reach a threshold before each kill
const KEYS = 4; // created before each kill, then rotated and revoked

t.test('every event arrives, whichever gateway is killed while it sends', async (t) => {
  const world = await faultWorld(t);
  const { sql } = world;
  const receiver = await startReceiver(t);
  const mailbox = await startMailbox(t);
  // every other gateway is behind PgBouncer, where it is installed
  const program = installed('pgbouncer');
  const pooled =
    program === null ? world.databaseUrl : await startPooler(t, program, world.databaseUrl);
  let started = 0;
  const start = () =>
    world.gateway({
      DATABASE_URL: started++ % 2 === 0 ? world.databaseUrl : pooled,
      ALERT_WEBHOOK_URL: receiver.url,
      ALERT_WEBHOOK_SECRET: receiver.secret,
      SMTP_URL: mailbox.url,
      ALERT_FROM: 'tollgate@gate.example',
      ALERT_TO: 'ops@tollgate.example',
    });
  const gateways = await Promise.all(Array.from({ length: REPLICAS }, start));
  // a third of the posts fails, and every answer takes a while: there is always one on its way
  let posts = 0;
  receiver.answer((res) => {
    const status = posts++ % 3 === 0 ? 500 : 204;
    const post = receiver.received.at(-1);
    setTimeout(() => {
      if (res.destroyed) return;
      if (post !== undefined) post.status = status;
      res.writeHead(status).end();
    }, 150);
  });
  const hurry = setInterval(() => {
    sql`update event_deliveries set next_attempt_at = now() where state = 'pending'`.catch(
      () => {},
    );
  }, 500);
  t.teardown(() => clearInterval(hurry));
  const holder = async (): Promise<GatewayProcess | undefined> => {
    const sending = await Promise.all(
      gateways.map((gateway) => metric(gateway, 'tollgate_alerts_sender')),
    );
    return gateways[sending.indexOf(1)];
  };

  const takeovers: number[] = [];
  for (let n = 0; n <= KILLS; n++) {
    const sender = (await until(holder, 'a gateway sends')) as GatewayProcess;
    const before = receiver.received.length;
    await sql`
      with made as (
        insert into companies (name, monthly_budget_eur) select 'Round ' || ${n}::int, 10 from generate_series(1, ${COMPANIES}::int)
        returning id
      )
      insert into chat_usage (company_id, cost_eur) select id, 10 from made`;
    await sql`
      insert into api_keys (company_id, name, digest, prefix, scopes)
      select ${world.company}, 'Round ' || ${n}::int, sha256(gen_random_uuid()::text::bytea), 'svc_abcd', '{chat}'
      from generate_series(1, ${KEYS}::int)`;
    await sql`update api_keys set digest = sha256(gen_random_uuid()::text::bytea) where name = 'Round ' || ${n}::int`;
    await sql`update api_keys set revoked_at = now() where name = 'Round ' || ${n}::int`;
    if (n === KILLS) break;
    await until(
      () => receiver.received.length >= before + 2 + (n % 5),
      'some posts are on their way',
    );
    sender.signal('SIGKILL');
    t.equal(await sender.exited, null);
    const killed = performance.now();
    if (!LONG) await sql`update alert_lease set expires_at = clock_timestamp()`; // some ten seconds sooner
    gateways.splice(gateways.indexOf(sender), 1, await start());
    await until(holder, 'another gateway sends');
    takeovers.push((performance.now() - killed) / 1000);
  }
  const left = () => sql`
    select id from events where not told union all select event_id from event_deliveries where state <> 'delivered'`;
  await until(left, 'every event is delivered', ({ length }) => length === 0);
  clearInterval(hurry);
  for (const gateway of gateways) gateway.signal('SIGTERM');
  for (const gateway of gateways) t.equal(await gateway.exited, 0);

  const alerts = await sql<
    { id: string; superseded: boolean }[]
  >`select id, superseded from budget_alerts`;
  const told = alerts.filter(({ superseded }) => !superseded).map(({ id }) => id);
  t.equal(told.length, COMPANIES * (KILLS + 1), 'one alert for each company');
  t.equal(alerts.length, told.length * 3, 'and a row for each lower threshold');
  const events = await sql<{ id: string; kind: string }[]>`select id, kind from events`;
  const changes = events.filter(({ kind }) => kind.startsWith('key.'));
  t.equal(
    changes.length,
    1 + 3 * KEYS * (KILLS + 1),
    'one event for each change of a key, and the key of before',
  );
  t.equal(events.length, told.length + changes.length);
  const taken = receiver.received
    .filter(({ status }) => status === 204)
    .map(({ webhookId }) => webhookId);
  t.same(
    [...new Set(taken)].sort(),
    events.map(({ id }) => id).sort(),
    'the receiver has taken each of them, and no other',
  );
  t.same(receiver.forged, [], 'every signature is right');
  const twice = taken.length - events.length;
  t.ok(
    twice <= KILLS * 4,
    `${twice} were taken again: at most those whose answer a kill has cut off`,
  );
  const messages = mailbox.mails.map(({ text }) => /^Message-ID:\s+(\S+)/im.exec(text)?.[1]);
  t.equal(new Set(messages).size, told.length, 'an e-mail for each of them');
  t.ok(
    messages.length - told.length <= KILLS * 4,
    `${messages.length - told.length} e-mails came again`,
  );
  const longest = Math.max(...takeovers).toFixed(1);
  note(
    'An event is told, once: budget alerts, changes of keys',
    `${REPLICAS} gateways, a webhook that fails every third time, e-mails; the gateway that sends killed (kill -9) while it does, ${KILLS} times`,
    `${told.length} alerts and ${changes.length} changes of keys, all taken by the webhook, and ${told.length} e-mails; ${twice} posts and ${messages.length - told.length} e-mails came again under the same id; another gateway sends at most ${longest} s after a kill`,
  );
  t.comment(
    `takeovers: ${takeovers.map((seconds) => seconds.toFixed(1))} s, again: ${twice}, ${messages.length - told.length}`,
  );
});
