import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { type Behaviour, behaviourOf } from './fault.ts';

export type Json = Readonly<Record<string, unknown>>;

/** One request as the demo received it. Tests compare the ledger with it. */
export interface DemoCall {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The requested internal model name. */
  model: string | null;
  /** The last usage given to the socket; null: none. */
  usage: Usage | null;
  /** `cut`: one side left before the answer was complete. */
  outcome: 'open' | 'complete' | 'cut';
}

/** Token counts as chat completions name them. */
export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens?: number;
  readonly total_tokens: number;
}

/** A request for a model, as it was read. */
export interface DemoRequest {
  readonly body: Json;
  /** The requested internal model name. */
  readonly model: string;
  readonly behaviour: Behaviour;
}

/** A request that the API refuses with this status. Each dialect has a shape for it. */
export class DemoError extends Error {
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;

  constructor(status: number, message: string, code: string | null = null, param: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

export async function receive(req: IncomingMessage): Promise<DemoCall> {
  const body = Buffer.concat(await req.toArray());
  const path = (req.url as string).split('?', 1)[0] as string;
  const { method, headers } = req;
  return { method: method as string, path, headers, body, model: null, usage: null, outcome: 'open' };
}

/** @throws DemoError when the body is no JSON or names no model that exists */
export function readRequest(call: DemoCall): DemoRequest {
  let body: Json | null;
  try {
    body = JSON.parse(call.body.toString());
  } catch {
    throw new DemoError(400, 'We could not parse the JSON body of your request.', 'invalid_json');
  }
  const model = body?.model;
  if (typeof model !== 'string' || model === '') throw new DemoError(400, 'You must provide a model.', null, 'model');
  call.model = model;
  const behaviour = behaviourOf(model);
  if (behaviour === null) throw new DemoError(404, `The model '${model}' does not exist.`, 'model_not_found', 'model');
  return { body: body as Json, model, behaviour };
}

/** The model that an answer names; undefined: it names none. */
export function reportedModel({ model, behaviour }: DemoRequest): string | undefined {
  if (behaviour.model === 'missing') return undefined;
  return behaviour.model === 'other' ? 'internal-demo-fallback' : model;
}
