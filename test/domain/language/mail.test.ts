import t from 'tap';
import { wordsOf } from '../../../src/domain/language/language.ts';
import { type MailBrand, mailIn } from '../../../src/domain/language/mail.ts';

/** What all e-mails have in common. */

const BRAND: MailBrand = {
  name: 'A&B',
  color: null,
  logo: null,
  support: 'mailto:help@ab.example',
  imprint: null,
  privacy: null,
};
const PARTS = [
  'Hello <b>',
  { facts: [['Total', '1 €']] },
  { href: 'https://ab.example/?a=1&b="2"', label: 'Open' },
] as const;

t.test(
  'text and HTML tell the same, and nobody can write HTML or lines of their own',
  async (t) => {
    const { subject, text, html } = mailIn(wordsOf('de'), BRAND, 'For\r\nBcc: x@y.example', PARTS);
    t.equal(subject, '[A&B] For  Bcc: x@y.example');
    t.equal(
      text,
      `Hello <b>\n\nTotal: 1 €\n\nhttps://ab.example/?a=1&b="2"\n\n-- \nHilfe: help@ab.example\n`,
    );
    t.match(html, '<html lang="de');
    t.match(html, 'Hello &lt;b&gt;');
    t.match(html, /Total<\/td>.*1 €<\/td>/);
    t.match(html, 'href="https://ab.example/?a=1&amp;b=&quot;2&quot;"');
    t.match(html, />A&amp;B<\/td>/);
    t.match(html, 'href="mailto:help@ab.example"');
  },
);

t.test('HTML loads nothing, and a logo comes with it, where mail programs show it', async (t) => {
  const png = { type: 'image/png', body: Buffer.from('PNG').toString('base64') };
  const of = (logo: MailBrand['logo']) => mailIn(wordsOf('en'), { ...BRAND, logo }, 'Title', PARTS);
  t.match(of(png).attachments, [{ cid: 'logo@mail', content: png.body, encoding: 'base64' }]);
  t.same(of(png).html.match(/(?:src|background|url)\s*[=(]\s*["']?[^"')]*/g), [
    'src="cid:logo@mail',
  ]);
  for (const none of [null, { type: 'image/svg+xml', body: '<svg/>' }]) {
    t.same(of(none).attachments, []);
    t.notMatch(of(none).html, '<img');
  }
});

t.test('buttons are read in every colour', async (t) => {
  for (const [color, ink] of [
    ['#ffd400', '#000000'],
    ['#0a6b58', '#ffffff'],
    [null, '#ffffff'],
    ['#7f7f7f', '#000000'],
  ] as const)
    t.match(
      mailIn(wordsOf('en'), { ...BRAND, color }, 'T', PARTS).html,
      `color:${ink};font-size:16px`,
      `${color}`,
    );
});
