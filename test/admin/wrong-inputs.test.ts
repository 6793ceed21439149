import t from 'tap';
import { ALL } from './browser.ts';
import { paint, paintOthers } from './paint.ts';
import { inTurn, type Page, type Person, startOffice } from './people.ts';

/** Every field of every form that pages link to, with wrong inputs: none is an error of the program, and nothing typed is lost. */

const WRONG = [
  ' ',
  '-1',
  '1e999',
  'NaN',
  '99999999999999999999',
  '1,000.00,0',
  '٣٫٥',
  '2026-13-45',
  '2026-02-30T25:61',
  "x'; drop table companies--",
  '<script>alert(1)</script>" onfocus="x',
  '{"$ne":null}',
  '../../etc/passwd',
  '%00%ff',
  'ab',
  'a\u0000b',
  '\u202eright to left\u200b',
  '💥 é ﬁ',
  'a@b',
  'x'.repeat(5000),
];
/** Of how many wrong inputs each field gets one, in turn; with ALL=1 each gets all. */
const EVERY = ALL ? 1 : 4;
/** These end the session of who walks, send a form that no page checks, or are gone once they were sent: their own tests have them. */
const ELSEWHERE = /sign-out|\/language|\/playground|\/second-factor|\/account|\/pause/;
const UUID = /[0-9a-f]{8}-[0-9a-f-]{27}/g;

const office = await startOffice(t);
const { company } = office.customer;
await paint(office.sql, company);
await paintOthers(office.sql, company);

interface FormOnPage {
  readonly page: string;
  readonly action: string;
  readonly fields: Readonly<Record<string, string>>;
  /** Names of fields that somebody types into. */
  readonly typed: readonly string[];
}

for (const role of ['operator', 'owner'] as const) {
  t.test(`forms of an ${role}`, async (t) => {
    const next = await inTurn(office, role);
    const forms = await formsOf(next, role === 'operator' ? ['/', `/companies/${company}`] : ['/']);
    t.ok(forms.length > 10, `${forms.length} forms`);
    let sent = 0;
    let turn = 0;
    for (const { page, action, fields, typed } of forms) {
      for (const name of typed) {
        for (const [at, wrong] of WRONG.entries()) {
          if ((at + turn) % EVERY !== 0) continue;
          sent++;
          const answer = await next().post(action, { ...fields, [name]: wrong });
          const label = `${name} of ${action.replaceAll(UUID, ':id')} is ${JSON.stringify(wrong.slice(0, 40))}`;
          if (answer.status >= 500) t.fail(`${label}: ${answer.status}`);
          else if (answer.status === 422 && !holds(answer, wrong))
            t.fail(`${label}, from ${page}: what was typed is lost`);
        }
        turn++;
      }
    }
    t.comment(`${sent} wrong inputs in ${forms.length} forms`);
    t.ok(sent > 100);
  });
}

/** Whether a page that refuses a form still has what was typed; a NUL cannot stand in a page. */
function holds({ text }: Page, typed: string): boolean {
  return typed.includes('\0') || unescaped(text).includes(typed.trim());
}

/** The forms of the pages that are reached by links, each page of a kind once. */
async function formsOf(next: () => Person, from: readonly string[]): Promise<FormOnPage[]> {
  const kindOf = (path: string) => path.replaceAll(UUID, ':id').replace(/\?.*/, '');
  const seen = new Set<string>();
  const forms = new Map<string, FormOnPage>();
  const queue = [...from];
  for (const path of queue) {
    if (seen.has(kindOf(path)) || /\.(csv|json|tar\.gz)|sign-out/.test(path)) continue;
    seen.add(kindOf(path));
    const answer = await next().get(path);
    const location = answer.headers.get('location');
    if (location !== null) queue.push(location);
    if (answer.status !== 200) continue;
    for (const [, link] of answer.text.matchAll(/href="(\/[^"#]*)"/g))
      queue.push(unescaped(link as string));
    for (const form of answer.text.split('<form ').slice(1)) {
      const [, action] = /^method="post" action="([^"]*)"/.exec(form) ?? [];
      if (action === undefined || ELSEWHERE.test(action) || forms.has(kindOf(action))) continue;
      const found = fieldsIn(form.split('</form>')[0] as string);
      if (found.typed.length > 0)
        forms.set(kindOf(action), { page: kindOf(path), action, ...found });
    }
  }
  return [...forms.values()];
}

function fieldsIn(form: string): Pick<FormOnPage, 'fields' | 'typed'> {
  const fields: Record<string, string> = {};
  const typed: string[] = [];
  for (const [tag, kind, , inside = ''] of form.matchAll(
    /<(input|textarea|select)( [^>]*)>(?:([^<]*)<\/textarea>)?/g,
  )) {
    const attribute = (name: string) => new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1];
    const name = attribute('name');
    const type = attribute('type') ?? 'text';
    if (name === undefined || name === 'csrf' || type === 'file' || type === 'password') continue;
    const isBox = type === 'checkbox' || type === 'radio';
    if (!isBox || / checked/.test(tag)) fields[name] = unescaped(attribute('value') ?? inside);
    if (!isBox && type !== 'hidden' && kind !== 'select' && !/ (readonly|disabled)/.test(tag))
      typed.push(name);
  }
  return { fields, typed };
}

function unescaped(text: string): string {
  return text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');
}
