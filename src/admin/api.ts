import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { request as httpRequest } from '../runtime/node-http.ts';
import type { PagesSettings } from './settings.ts';

const RUN_MS = 120_000;

/** Sends a POST to the gateway's own API, as any client would. @throws Error when no whole JSON answer comes */
export async function callApi(
  { apiUrl, apiSocket }: PagesSettings,
  path: string,
  key: string,
  body: object,
): Promise<{ status: number; answer: object }> {
  const isTls = apiUrl.startsWith('https:');
  const request = isTls ? process.getBuiltinModule('node:https').request : httpRequest;
  const sent = request(apiUrl + path, {
    rejectUnauthorized: false, // within this machine; the certificate has the public name
    method: 'POST',
    ...(apiSocket === null ? {} : { socketPath: apiSocket }),
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    signal: AbortSignal.timeout(RUN_MS),
  });
  sent.on('error', () => {}); // after the head of the answer its body has the error
  sent.end(JSON.stringify(body));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode as number, answer: (await json(response)) as object };
}
