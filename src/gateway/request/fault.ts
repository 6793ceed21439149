import { faultFields } from '../../log.ts';
import type { Services } from './services.ts';

/**
 * Logs and counts something that the gateway's own code threw: a fault that ended one request or connection.
 * @param requestId null: no request was read
 */
export function noteFault(
  { log, metrics }: Pick<Services, 'log' | 'metrics'>,
  requestId: string | null,
  error: unknown,
): void {
  metrics.threw();
  const id = requestId === null ? {} : { request_id: requestId };
  log.error({ ...id, ...faultFields(error) }, 'request failed');
}
