import { createHash } from 'node:crypto';
import { CLOSED_MONTH } from '../domain/event.ts';
import { wordsOf } from '../domain/language/language.ts';
import type { MailBrand } from '../domain/language/mail.ts';
import { asLanguage, ENGLISH } from '../domain/languages.ts';
import { type Alert, mailOf } from '../domain/wording/alert.ts';
import { type ClosedMonth, statementMail } from '../domain/wording/statement-mail.ts';
import { type MailSettings, mailer } from './mail.ts';
import type { Send } from './sender.ts';

/** Longer than for a webhook: a server that looks for spam and is given up before it says so has taken the message. */
const MAIL_MS = 60_000;

interface EmailSettings extends MailSettings {
  /** Base address of the administration pages, for a link; null: none. */
  readonly pages: URL | null;
  readonly brand: MailBrand;
}

/**
 * Sends budget alerts by SMTP, one message for each receiver and company, and summaries of months. A message sent again has the same Message-ID, by which
 * many programs show it once; SMTP itself has nothing of the kind.
 */
export function emailSender(
  { pages, brand, ...settings }: EmailSettings,
  timeoutMs = MAIL_MS,
): Send {
  const send = mailer(settings, timeoutMs);
  const domain = settings.from.slice(settings.from.lastIndexOf('@') + 1);
  return (events, { recipient, language, outsider }) => {
    const alerts = events as unknown as readonly [Alert, ...Alert[]]; // other events are for no e-mail
    const hash = createHash('sha256').update(recipient);
    for (const { id } of alerts.slice(1)) hash.update(id);
    const digest = hash.digest('hex').slice(0, 16);
    const words = wordsOf(asLanguage(language) ?? ENGLISH);
    const [first] = events;
    const message =
      first.type === CLOSED_MONTH
        ? statementMail(first as unknown as ClosedMonth, words, brand, pages)
        : mailOf(alerts, words, brand, pages, outsider);
    return send({
      ...message,
      to: recipient,
      messageId: `<${alerts[0].id}.${digest}@${domain}>`,
    });
  };
}
