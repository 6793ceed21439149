import t from 'tap';
import { wordsOf } from '../../../src/domain/language/language.ts';
import { type BudgetAlert, mailOf } from '../../../src/domain/wording/alert.ts';

const BRAND = {
  name: 'Tollgate',
  color: null,
  logo: null,
  support: null,
  imprint: null,
  privacy: null,
};
const [EN, DE] = [wordsOf('en'), wordsOf('de')];

const ALERT: BudgetAlert = {
  id: '5f0c6a52-9d1e-4f6b-8a57-0d3c5f1b7e21',
  company: { id: '0b9f6a52-9d1e-4f6b-8a57-0d3c5f1b7e21', name: 'ACME' },
  key: null,
  month: '2026-11',
  threshold: '80',
  budget_eur: '400',
  spent_eur: '325.1234',
  forecast_eur: '480.5',
  occurred_at: '2026-11-20T10:00:00.000Z',
};

t.test('an e-mail says who, how much, and where to look', async (t) => {
  const pages = new URL('https://gate.example');
  t.match(mailOf([ALERT], EN, BRAND, pages), {
    subject: '[Tollgate] ACME has used 80 % of its budget for November 2026',
    text: `ACME has used 80 % of its budget for November 2026.

Budget: €400.00
Spent so far: €325.12
At this pace at the end of the month: €480.50

Once the budget is used up, calls are refused with status 402 until the month ends or the budget is raised.

https://gate.example/companies/0b9f6a52-9d1e-4f6b-8a57-0d3c5f1b7e21/usage?month=2026-11
`,
  });
  const key = { id: ALERT.id, name: 'Newsroom', prefix: 'svc_abcd' };
  const of = (more: Partial<BudgetAlert>) => mailOf([{ ...ALERT, key, ...more }], EN, BRAND, null);
  t.equal(
    of({ threshold: 'forecast' }).subject,
    '[Tollgate] Key “Newsroom” (svc_abcd…) of ACME will pass its budget for November 2026 at this pace',
  );
  t.match(of({ threshold: '100' }).text, /Calls are refused with status 402 until/);
  t.notMatch(of({ forecast_eur: null }).text, /pace|http/);
  t.match(
    mailOf([{ ...ALERT, key }], EN, BRAND, pages).text,
    `/usage?month=2026-11&key=${ALERT.id}\n`,
    'the same month and key',
  );
});

t.test(
  'an e-mail about the budget of a day names the day, and says until when calls are refused',
  async (t) => {
    const daily = { ...ALERT, day: '2026-11-20', forecast_eur: null };
    const mail = mailOf([daily], EN, BRAND, null);
    t.match(mail.subject, /has used 80 % of its budget for November 20, 2026|for 20 November 2026/);
    t.match(mail.text, /until the day ends or the budget is raised/);
    const german = mailOf([{ ...daily, threshold: '100' }], DE, BRAND, null);
    t.match(german.subject, 'ACME hat 100 % des Budgets für den 20. November 2026 verbraucht');
    t.match(german.text, 'bis der Tag endet');
  },
);

t.test('an e-mail of several alerts of a company tells each, and has one link', async (t) => {
  const key = { id: ALERT.id, name: 'Newsroom', prefix: 'svc_abcd' };
  const pages = new URL('https://gate.example');
  const { subject, text } = mailOf(
    [ALERT, { ...ALERT, key, threshold: '100', forecast_eur: null }],
    EN,
    BRAND,
    pages,
  );
  t.equal(subject, '[Tollgate] 2 budget alerts for ACME');
  t.equal(
    text,
    `ACME has used 80 % of its budget for November 2026.

Budget: €400.00
Spent so far: €325.12
At this pace at the end of the month: €480.50

Once the budget is used up, calls are refused with status 402 until the month ends or the budget is raised.


Key “Newsroom” (svc_abcd…) of ACME has used 100 % of its budget for November 2026.

Budget: €400.00
Spent so far: €325.12

Calls are refused with status 402 until the month ends or the budget is raised.

https://gate.example/companies/0b9f6a52-9d1e-4f6b-8a57-0d3c5f1b7e21/usage?month=2026-11
`,
  );
});

t.test(
  'an e-mail is in the language of its receiver, and names the operator and its pages below',
  async (t) => {
    const brand = {
      name: 'Modellwerk',
      color: null,
      logo: null,
      support: 'mailto:hilfe@modellwerk.example',
      imprint: 'https://modellwerk.example/impressum',
      privacy: null,
    };
    t.match(
      mailOf(
        [{ ...ALERT, budget_eur: '1400', threshold: '100', spent_eur: '1400.004' }],
        DE,
        brand,
        null,
      ),
      {
        subject: '[Modellwerk] ACME hat 100 % des Budgets für November 2026 verbraucht',
        text: `ACME hat 100 % des Budgets für November 2026 verbraucht.

Budget: 1.400,00 €
Bisher ausgegeben: 1.400,00 €
Bei diesem Tempo am Ende des Monats: 480,50 €

Aufrufe werden mit Status 402 abgewiesen, bis der Monat endet oder das Budget erhöht wird.

-- 
Hilfe: hilfe@modellwerk.example
Impressum: https://modellwerk.example/impressum
`.replaceAll(' €', '\u00a0€'),
      },
    );
  },
);
