import t from 'tap';
import { wordsOf } from '../../../src/domain/language/language.ts';
import { newPasswordMail } from '../../../src/domain/wording/person-mail.ts';

const BRAND = {
  name: 'Tollgate',
  color: null,
  logo: null,
  support: null,
  imprint: null,
  privacy: null,
};

t.test('who has forgotten a password gets a link, or learns how to sign in', async (t) => {
  const of = (link: string | null, signIn: string | null) =>
    newPasswordMail({ link, minutes: 60, signIn }, wordsOf('de'), BRAND).text;
  t.match(
    of('https://x.example/new-password/T', 'https://x.example/sign-in'),
    /60 Minuten.*\nhttps:\/\/x\.example\/new-password\/T\n/s,
  );
  t.match(
    of(null, 'https://x.example/sign-in'),
    /mit Ihrer Organisation an.*\nhttps:\/\/x\.example\/sign-in\n/s,
  );
  t.match(of(null, null), /Ihr Konto hat kein Passwort\. Der Betreiber/);
});
