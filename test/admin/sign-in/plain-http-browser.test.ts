import { createHash, randomBytes } from 'node:crypto';
import t from 'tap';
import { openTab, startBrowser } from '../browser.ts';
import { PASSWORD, startOffice } from '../people.ts';

/**
 * The pages by plain HTTP under a name of the network. There a browser sends no Sec-Fetch-Site, and Origin alone says
 * where a form comes from: every form that people reach without a session has to be one that the browser lets tell it.
 */

const office = await startOffice(t);
const { sql, customer, people } = office;
const base = office.adminUrl.replace('127.0.0.1', 'tollgate.test');
const browser = await startBrowser(t);
const NEW = 'another long password';

function secret(): { token: string; digest: Buffer } {
  const token = randomBytes(32).toString('base64url');
  return { token, digest: createHash('sha256').update(token).digest() };
}

t.test('forms behind the links of e-mails are taken', async (t) => {
  const { company } = customer;
  const [invited, reset, asked] = [secret(), secret(), secret()];
  await sql`insert into invitations (company_id, email, role, created_by, expires_at, digest)
    values (${company}, 'ida@customer.example', 'member', 'x', now() + interval '1 day', ${invited.digest})`;
  await sql`update users set reset_digest = ${reset.digest}, reset_asked_at = now() where email = ${people.member}`;
  await sql`insert into alert_receivers (company_id, email, percents, forecast, digest, expires_at)
    values (${company}, 'books@accountants.example', '{80}', false, ${asked.digest}, now() + interval '1 day')`;
  const [agreed] = await sql`
    insert into alert_receivers (company_id, email, percents, forecast, confirmed_at)
    values (${company}, 'others@accountants.example', '{80}', false, now()) returning id`;
  const links = {
    [`/invitation/${invited.token}`]: NEW,
    [`/new-password/${reset.token}`]: NEW,
    [`/alert-receiver/confirm/${asked.token}`]: null,
    [`/alert-receiver/stop/${agreed?.id}`]: null,
  };
  for (const [path, password] of Object.entries(links)) {
    const { page } = await openTab(browser, base);
    t.teardown(() => page.context().close());
    await page.goto(path);
    if (password !== null) await page.fill('input[name=password]', password);
    const answer = page.waitForResponse((sent) => sent.request().method() === 'POST');
    await page.click('main form button.primary');
    const response = await answer;
    const { origin, referer = '' } = await response.request().allHeaders();
    t.equal(origin, base, path);
    t.ok(referer.startsWith(base), path);
    t.ok(response.status() < 400, `${path}: ${response.status()}`);
  }
  const [{ joined, confirmed, stopped }] = await sql<
    [Record<'joined' | 'confirmed' | 'stopped', number>]
  >`
    select (select count(*)::integer from users where email = 'ida@customer.example') as joined,
      (select count(*)::integer from alert_receivers where email = 'books@accountants.example' and confirmed_at is not null) as confirmed,
      (select count(*)::integer from alert_receivers where email = 'others@accountants.example') as stopped`;
  t.same({ joined, confirmed, stopped }, { joined: 1, confirmed: 1, stopped: 0 });
});

t.test('so is the form to sign in', async (t) => {
  const { page } = await openTab(browser, base);
  t.teardown(() => page.context().close());
  await page.goto('/sign-in');
  await page.fill('input[name=email]', people.owner);
  await page.fill('input[name=password]', PASSWORD);
  await page.click('main form button.primary');
  t.notMatch(page.url(), '/sign-in');
});
