import { colourOf, contrast, WHITE } from '../../config-brand.ts';
import type { Words } from './en.ts';

/** What e-mails show of the operator. */
export interface MailBrand {
  readonly name: string;
  /** Of buttons, such as "#0a6b58"; null: green. */
  readonly color: string | null;
  /** The body as bytes, or in base64; null: there is none. A PNG is shown: most mail programs show no SVG. */
  readonly logo: { readonly type: string; readonly body: Uint8Array | string } | null;
  /** Addresses as links have them; null: there is none. */
  readonly support: string | null;
  readonly imprint: string | null;
  readonly privacy: string | null;
}

/** A part of an e-mail: a paragraph, the title of what follows, facts with their names, or where a link leads. */
export type MailPart =
  | string
  | { readonly title: string }
  | { readonly facts: readonly (readonly [name: string, value: string])[] }
  /** With what it does, for a button; without, for a link in the text. */
  | { readonly href: string; readonly label?: string };

/** An e-mail as plain text and as HTML, which have the same parts. */
export interface Message {
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  readonly attachments: readonly object[];
}

const GREEN = '#0a6b58';
const LOGO = 'logo@mail';
/** What programs that know dark e-mails take instead of the colours of `style` attributes, which are those of light pages. */
const DARK = `:root{color-scheme:light dark;supported-color-schemes:light dark}
@media (prefers-color-scheme:dark){.page{background:#101513!important}.card{background:#181f1c!important;border-color:#2f3a35!important}.ink{color:#e6ece9!important}.soft{color:#a3b0aa!important}.line{border-color:#2f3a35!important}.logo{background:#fff!important;padding:4px!important;border-radius:4px!important}}`;
const FONT = "font-family:system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif";
const SOFT = 'color:#55625c;font-size:13px;line-height:20px';
const TABLE = 'role="presentation" border="0" cellpadding="0" cellspacing="0"';

/**
 * Makes an e-mail, with what every e-mail of this operator says below it. Its HTML loads nothing: a logo is attached.
 * @param title the subject, and the heading unless the first part is one
 */
export function mailIn(words: Words, brand: MailBrand, title: string, given: readonly MailPart[]): Message {
  // anyone may have written the names in the database, and none may add lines of its own
  const onOneLine = (_: string, value: unknown) => (typeof value === 'string' ? inOneLine(value) : value);
  const parts: readonly MailPart[] = JSON.parse(JSON.stringify(given), onOneLine);
  const below = (['support', 'imprint', 'privacy'] as const).flatMap((name) => {
    const href = brand[name];
    return href === null ? [] : [{ href, name: words.frame[name] }];
  });
  const foot = below.map(({ name, href }) => `${name}: ${href.replace(/^mailto:/, '')}`);
  const subject = words.mails.subject({ brand: brand.name, text: inOneLine(title) });
  const logo = brand.logo?.type === 'image/png' ? brand.logo : null;
  return {
    subject,
    // "-- " is the sign by which programs know a signature
    text: `${[parts.map(plain).join('\n\n').replace(/^\n/, ''), ...(foot.length === 0 ? [] : ['', '-- ', ...foot])].join('\n')}\n`,
    html: `<!doctype html>
<html lang="${words.locale}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><meta name="supported-color-schemes" content="light dark"><title>${escaped(subject)}</title><style>${DARK}</style></head>
<body class="page" style="margin:0;padding:0;background:#f6f7f6;${FONT}">
<table ${TABLE} width="100%" class="page" style="background:#f6f7f6"><tr><td align="center" style="padding:24px 12px">
<table ${TABLE} width="560" style="width:100%;max-width:560px;text-align:left">
<tr><td class="ink" style="padding:0 4px 16px;color:#17211d;font-size:16px;font-weight:600">${logo === null ? '' : `<img class="logo" src="cid:${LOGO}" alt="" height="32" style="height:32px;width:auto;border:0;vertical-align:middle;margin-right:10px">`}${escaped(brand.name)}</td></tr>
<tr><td class="card ink" style="padding:28px 24px 20px;background:#fff;border:1px solid #dbe2de;border-radius:10px;color:#17211d;font-size:16px;line-height:24px">
${[...(isTitle(parts[0]) ? [] : [{ title }]), ...parts].map((part, at) => marked(part, at, brand.color ?? GREEN)).join('\n')}
</td></tr>
<tr><td class="soft" style="padding:16px 4px 0;${SOFT}">${below.map(({ href, name }) => `<a class="soft" href="${escaped(href)}" style="color:#55625c">${escaped(name)}</a>`).join(' · ')}</td></tr>
</table></td></tr></table></body></html>
`,
    attachments: logo === null ? [] : [{ filename: 'logo.png', content: logo.body, encoding: 'base64', cid: LOGO, contentDisposition: 'inline' }],
  };
}

function isTitle(part: MailPart | undefined): boolean {
  return typeof part === 'object' && 'title' in part;
}

function inOneLine(text: string): string {
  return text.replace(/\p{Cc}/gu, ' ');
}

function plain(part: MailPart): string {
  if (typeof part === 'string') return part;
  if ('title' in part) return `\n${part.title}.`; // two lines above the second one
  return 'facts' in part ? part.facts.map(([name, value]) => `${name}: ${value}`).join('\n') : part.href;
}

function marked(part: MailPart, at: number, color: string): string {
  if (typeof part === 'string') return `<p style="margin:0 0 16px">${escaped(part)}</p>`;
  if ('title' in part) {
    return `<h1 style="margin:${at === 0 ? 0 : 32}px 0 16px;font-size:20px;line-height:28px;font-weight:600">${escaped(part.title)}</h1>`;
  }
  if ('facts' in part) {
    const rows = part.facts.map(([name, value]) => `<tr><td class="soft line" style="padding:8px 12px 8px 0;border-top:1px solid #dbe2de;color:#55625c">${escaped(name)}</td><td class="line" align="right" style="padding:8px 0;border-top:1px solid #dbe2de;font-weight:600">${escaped(value)}</td></tr>`);
    return `<table ${TABLE} width="100%" style="margin:0 0 16px;font-size:16px;line-height:24px">${rows.join('')}</table>`;
  }
  const href = escaped(part.href);
  const shown = `<p class="soft" style="margin:0 0 12px;${SOFT};word-break:break-all"><a class="soft" href="${href}" style="color:#55625c">${href}</a></p>`;
  if (part.label === undefined) return shown;
  const ink = contrast(colourOf(color), WHITE) >= 4.5 ? '#ffffff' : '#000000'; // one of them has that to every colour
  return `<table ${TABLE} style="margin:4px 0 12px"><tr><td bgcolor="${color}" style="border-radius:6px"><a href="${href}" style="display:inline-block;padding:12px 22px;color:${ink};font-size:16px;font-weight:600;text-decoration:none">${escaped(part.label)}</a></td></tr></table>${shown}`;
}

const MARKS: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (mark) => MARKS[mark] as string);
}
