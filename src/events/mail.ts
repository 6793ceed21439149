import { createTransport } from 'nodemailer';
import { isLoopback } from '../config-addresses.ts';
import type { Message } from '../domain/language/mail.ts';

export interface MailSettings {
  /** `smtp://` or `smtps://`, with user and password. With one, or to another machine, TLS is required: `needsTls`. */
  readonly url: string;
  /** The sender's address. */
  readonly from: string;
}

interface Mail
  extends Pick<Message, 'subject' | 'text'>,
    Partial<Omit<Message, 'subject' | 'text'>> {
  readonly to: string;
  /** Stays the same when a message is sent again; absent: a new one. */
  readonly messageId?: string;
}

/** Sends an e-mail. Rejects with a short reason that holds no address and no secret. */
type SendMail = (mail: Mail) => Promise<void>;

/** Sends by SMTP. @param timeoutMs how long one message may take */
export function mailer({ url, from }: MailSettings, timeoutMs: number): SendMail {
  const each = timeoutMs / 2; // of connecting and the greeting
  const transport = createTransport({
    url,
    ...(needsTls(new URL(url)) && { requireTLS: true }),
    connectionTimeout: each,
    greetingTimeout: each,
    dnsTimeout: each,
    socketTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  return async (mail) => {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(new Error('no answer in time')), timeoutMs);
    try {
      const to = { name: '', address: mail.to }; // one address: a text with a comma would be read as several
      const sent = transport.sendMail({
        ...mail,
        attachments: [...(mail.attachments ?? [])],
        to,
        from,
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

/** RFC 8314, section 3: no password, and no secret link over a network, without TLS. `?requireTLS=false` is the way out. */
function needsTls({ username, password, hostname, searchParams }: URL): boolean {
  const isAtRisk = username !== '' || password !== '' || !isLoopback(hostname);
  return isAtRisk && searchParams.get('requireTLS') !== 'false';
}

/** Without the server's own words, which may repeat addresses. */
function shortReason({
  code,
  responseCode,
  message,
}: Error & { code?: string; responseCode?: number }): string {
  if (code === undefined) return message;
  if (code === 'ETLS') return 'ETLS: the server takes no TLS';
  return responseCode === undefined ? code : `${code} ${responseCode}`;
}
