import { createHash } from 'node:crypto';
import { createTransport } from 'nodemailer';
import { mailOf } from '../domain/alert.ts';
import { ATTEMPT_MS, type Send } from './sender.ts';

export interface EmailSettings {
  /** `smtp://` or `smtps://`, with user and password. */
  readonly url: string;
  /** The sender's address. */
  readonly from: string;
  /** Base address of the administration pages, for a link; null: none. */
  readonly pages: URL | null;
}

/**
 * Sends alerts by SMTP, one message for each receiver. A message sent again has the same Message-ID, by which
 * many programs show it once; SMTP itself has nothing of the kind.
 */
export function emailSender({ url, from, pages }: EmailSettings, timeoutMs = ATTEMPT_MS): Send {
  const each = timeoutMs / 2; // of connecting, the greeting and each answer
  const transport = createTransport({
    ...{ url, connectionTimeout: each, greetingTimeout: each, dnsTimeout: each, socketTimeout: each },
    ...{ disableFileAccess: true, disableUrlAccess: true },
  });
  const domain = from.slice(from.lastIndexOf('@') + 1);
  return async (alert, recipient) => {
    const digest = createHash('sha256').update(recipient).digest('hex').slice(0, 16);
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(new Error('no answer in time')), timeoutMs);
    try {
      const sent = transport.sendMail({
        ...mailOf(alert, pages),
        ...{ from, to: recipient, messageId: `<${alert.id}.${digest}@${domain}>` },
        headers: { 'auto-submitted': 'auto-generated' },
      });
      sent.catch(() => {}); // after its time
      await Promise.race([sent, late]);
    } catch (error) {
      throw new Error(shortReason(error as Error & { code?: string; responseCode?: number }));
    } finally {
      clearTimeout(timer);
    }
  };
}

/** Without the server's own words, which may repeat addresses. */
function shortReason({ code, responseCode, message }: Error & { code?: string; responseCode?: number }): string {
  if (code === undefined) return message;
  return responseCode === undefined ? code : `${code} ${responseCode}`;
}
