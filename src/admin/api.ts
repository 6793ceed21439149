import { request } from '../runtime/node-http.ts';
import type { ApiAddress } from './services.ts';

const RUN_MS = 120_000;
const MAX_ANSWER_BYTES = 4 << 20;

/** Sends a POST to the gateway's own API, as any client would. @throws Error when no whole JSON answer comes */
export function callApi(
  api: ApiAddress,
  path: string,
  key: string,
  body: object,
): Promise<{ status: number; answer: object }> {
  const text = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const sent = request(
      api.url() + path,
      {
        method: 'POST',
        ...(api.socket === null ? {} : { socketPath: api.socket }),
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(text),
        },
        signal: AbortSignal.timeout(RUN_MS),
      },
      async (response) => {
        try {
          const chunks: Buffer[] = [];
          let length = 0;
          for await (const chunk of response) {
            length += chunk.length;
            if (length > MAX_ANSWER_BYTES) throw new Error('the answer is too large');
            chunks.push(chunk);
          }
          resolve({ status: response.statusCode as number, answer: JSON.parse(String(Buffer.concat(chunks))) });
        } catch (error) {
          reject(error);
        }
      },
    );
    sent.on('error', reject);
    sent.end(text);
  });
}
