import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { clientFor } from '../runtime/node-http.ts';
import { ATTEMPT_MS, type Send } from './sender.ts';

/**
 * Posts events as Standard Webhooks 1.0.0 has it: `webhook-id` is the event's, `webhook-timestamp` the second of
 * the attempt, `webhook-signature` "v1," and the HMAC-SHA256 of "id.timestamp.body" in base64. Any status from
 * 200 to 299 takes an event. Redirects are not followed, and the body of an answer is not read.
 * @param secret the key of the HMAC
 */
export function webhookSender(
  { url, secret }: { url: URL; secret: Buffer },
  timeoutMs = ATTEMPT_MS,
): Send {
  return async ([event]) => {
    const body = JSON.stringify(event);
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
