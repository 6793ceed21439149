import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';

export type Json = Readonly<Record<string, unknown>>;

/** One request as the demo received it. */
export interface DemoCall {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** The body of a request for a model. */
export interface ModelRequest extends Json {
  /** The internal model name. */
  readonly model: string;
}

/** A request that the API refuses with this status. Each dialect has a shape for it. */
export class DemoError extends Error {
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;

  constructor(
    status: number,
    message: string,
    code: string | null = null,
    param: string | null = null,
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

export async function receive(req: IncomingMessage): Promise<DemoCall> {
  const body = Buffer.concat(await req.toArray());
  const path = (req.url as string).split('?', 1)[0] as string;
  return { method: req.method as string, path, headers: req.headers, body };
}

/** @throws DemoError when the body is no JSON or names no model */
export function readRequest(bytes: Buffer): ModelRequest {
  let body: Json | null;
  try {
    body = JSON.parse(bytes.toString());
  } catch {
    throw new DemoError(400, 'We could not parse the JSON body of your request.', 'invalid_json');
  }
  const model = body?.model;
  if (typeof model !== 'string' || model === '')
    throw new DemoError(400, 'You must provide a model.', null, 'model');
  return { ...body, model };
}
