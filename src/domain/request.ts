import { GatewayError } from './errors.ts';
import {
  assistantRunRequest as validateAssistantRun,
  chatRequest as validateChat,
  embeddingRequest as validateEmbedding,
} from './validators.generated.ts';

/**
 * The request bodies as the gateway judges them (spec sections 4.2 to 4.4). Only the
 * members named here matter to us; the rest passes through by its bytes.
 */

export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly unknown[];
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean | null } | null;
}

export interface EmbeddingRequest {
  readonly model: string;
  readonly input: string | readonly string[];
  readonly encoding_format?: 'float' | 'base64' | null;
}

export interface AssistantRunRequest {
  readonly messages: readonly unknown[];
  readonly model_slug?: string | null;
  readonly temperature?: number | null;
  readonly max_tokens?: number | null;
}

/** @throws GatewayError 400 naming the first member that is missing or wrong */
export function checkChat(body: unknown): ChatRequest {
  return check<ChatRequest>(validateChat, body);
}

/** @throws GatewayError 400 naming the first member that is missing or wrong */
export function checkEmbedding(body: unknown): EmbeddingRequest {
  return check<EmbeddingRequest>(validateEmbedding, body);
}

/** @throws GatewayError 400 naming the first member that is missing, wrong or unknown */
export function checkAssistantRun(body: unknown): AssistantRunRequest {
  return check<AssistantRunRequest>(validateAssistantRun, body);
}

/** What ajv's generated code looks like to us. */
interface Validate {
  (body: unknown): boolean;
  errors?: readonly Violation[] | null;
}

interface Violation {
  readonly instancePath: string;
  readonly keyword: string;
  readonly message?: string;
  readonly params: Readonly<Record<string, unknown>>;
}

function check<T>(validate: Validate, body: unknown): T {
  if (validate(body)) return body as T;
  throw violationError((validate.errors as readonly Violation[])[0] as Violation);
}

function violationError({ instancePath, keyword, message, params }: Violation): GatewayError {
  // "/messages/0/role" is written messages[0].role, as SDK users know it
  const path = instancePath
    .slice(1)
    .replace(/\/(\d+)/g, '[$1]')
    .replaceAll('/', '.');
  const member = (name: unknown): string => (path === '' ? String(name) : `${path}.${name}`);
  switch (keyword) {
    case 'required': {
      const name = member(params.missingProperty);
      return new GatewayError('missing_required_parameter', `Missing required parameter: '${name}'.`, name);
    }
    case 'additionalProperties': {
      const name = member(params.additionalProperty);
      return new GatewayError('unsupported_parameter', `Unsupported parameter: '${name}'.`, name);
    }
    case 'type':
      if (path === '') return new GatewayError('invalid_type', 'The request body must be a JSON object.');
      return new GatewayError('invalid_type', `Invalid type for '${path}': ${message}.`, path);
    case 'enum': {
      const allowed = (params.allowedValues as unknown[]).map((value) => JSON.stringify(value)).join(', ');
      return new GatewayError('invalid_request', `Invalid value for '${path}': must be one of ${allowed}.`, path);
    }
    default:
      return new GatewayError('invalid_request', `Invalid value for '${path}': ${message}.`, path);
  }
}
