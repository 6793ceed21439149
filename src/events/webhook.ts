import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { CompanyEvent } from '../domain/event.ts';
import { wordsOf } from '../domain/language/language.ts';
import { ENGLISH } from '../domain/languages.ts';
import { eventText } from '../domain/wording/event-text.ts';
import { clientFor } from '../runtime/node-http.ts';
import { ATTEMPT_MS, type Send } from './sender.ts';

type WebhookFormat = 'event' | 'text' | 'teams';

/** Slack shows the text of an event; Mattermost refuses a `type` that is not its own, and Teams takes cards alone. */
const BODIES: Readonly<Record<WebhookFormat, (event: CompanyEvent, text: string) => object>> = {
  event: (event, text) => ({ ...event, text }),
  text: (_event, text) => ({ text }),
  teams: (_event, text) => ({
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        content: {
          type: 'AdaptiveCard',
          version: '1.4',
          body: [{ type: 'TextBlock', text, wrap: true }],
        },
      },
    ],
  }),
};

/**
 * Posts events as Standard Webhooks 1.0.0 has it: `webhook-id` is the event's, `webhook-timestamp` the second of
 * the attempt, `webhook-signature` "v1," and the HMAC-SHA256 of "id.timestamp.body" in base64. Any status from
 * 200 to 299 takes an event. Redirects are not followed, and the body of an answer is not read.
 * @param secret the key of the HMAC
 * @param format what is posted: the event with its text, or a message of a chat
 * @param pages base address of the administration pages, for a link in the text; null: none
 */
export function webhookSender(
  { url, secret, format = 'event' }: { url: URL; secret: Buffer; format?: WebhookFormat },
  pages: URL | null = null,
  timeoutMs = ATTEMPT_MS,
): Send {
  return async ([event]) => {
    const text = eventText(event, wordsOf(ENGLISH), pages);
    const body = JSON.stringify(BODIES[format](event, text));
    const timestamp = Math.floor(Date.now() / 1000);
    const signature = createHmac('sha256', secret)
      .update(`${event.id}.${timestamp}.${body}`)
      .digest('base64');
    const late = AbortSignal.timeout(timeoutMs);
    const post = clientFor(url).request(url, {
      method: 'POST',
      agent: false, // a connection of its own, closed after it
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'user-agent': 'tollgate',
        'webhook-id': event.id,
        'webhook-timestamp': timestamp,
        'webhook-signature': `v1,${signature}`,
      },
      signal: late,
    });
    post.on('error', () => {}); // of the connection once the status is known
    let status: number;
    try {
      const [answer] = (await once(post.end(body), 'response')) as [IncomingMessage];
      status = answer.statusCode as number;
    } catch (error) {
      throw new Error(
        late.aborted ? 'no answer in time' : ((error as NodeJS.ErrnoException).code ?? 'no answer'),
      );
    } finally {
      post.destroy();
    }
    if (status < 200 || status > 299) throw new Error(`status ${status}`);
  };
}
