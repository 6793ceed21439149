import type { Bound, Repeated } from '../../domain/budget.ts';
import type { Company } from '../../domain/company.ts';
import type { ErrorFormat, SlugParam } from '../../domain/errors.ts';
import type { ApiKey, Scope } from '../../domain/key.ts';
import type { Model, ModelKind } from '../../domain/model.ts';
import type { Echo } from '../../domain/tokens/estimate.ts';
import type { EndpointName, LookupEndpoint } from '../../domain/usage.ts';
import type { RequestHead } from '../../http/request-head.ts';
import type { Members } from '../../json/members.ts';
import type { UpstreamHandler } from '../../upstream/upstream.ts';
import type { CallMeter } from '../answer/call-meter.ts';
import type { RequestBody } from '../request/body.ts';
import type { Reply } from '../request/reply.ts';
import type { Services } from '../request/services.ts';

/** One endpoint that runs a model: what it needs and how its body is read. */
export interface Endpoint {
  readonly name: EndpointName;
  readonly scope: Scope;
  readonly kind: ModelKind;
  /** Path below the upstream's base address. */
  readonly upstreamPath: string;
  readonly errors: ErrorFormat;
  /** Whether the key may also come as `x-api-key`. */
  readonly takesApiKeyHeader: boolean;
  /**
   * Reads a request body.
   * @param id the path's identifier, for assistant runs
   * @param head the request's headers
   * @throws GatewayError 400 or 404
   */
  read(
    services: Services,
    body: RequestBody,
    companyId: string,
    id: string,
    head: RequestHead,
  ): Call | Promise<Call>;
}

/** One endpoint that runs no model: it tells something to the holder of any valid key (spec section 5, rule 3). */
export interface Lookup {
  readonly name: LookupEndpoint;
  /**
   * Makes the answer, which is JSON.
   * @param id the identifier in the path, still URL-encoded
   * @throws GatewayError, also as a rejection
   */
  render(services: Services, key: ApiKey, company: Company, id: string): Buffer | Promise<Buffer>;
}

/** One request, read and checked: the model it names, what goes upstream, and what relays the answer. */
export interface Call {
  readonly slug: string;
  readonly slugParam: SlugParam;
  /** The top-level members of the caller's body. */
  readonly members: Members;
  /** What the caller named in `metadata`; empty: nothing. */
  readonly costCenter: string;
  /** Checks that the model takes what the request holds. @throws GatewayError 400 */
  readonly check?: (model: Model) => void;
  /** The most tokens that the call lets the model generate; null: no limit. */
  readonly limit: number | null;
  /** What the model reads more than once; absent: nothing. */
  readonly repeated?: Repeated;
  /** What of the prompt the answer repeats: nobody generated it. Absent: nothing. */
  readonly echo?: Echo;
  /** Whether the prompt has no more tokens than the body has bytes; needed only where the body is not kept. */
  isTextAlone(): boolean;
  /** The most that the call can use; needed only where the budget is strict or tokens are limited. */
  bound(model: Model): Bound;
  /**
   * The upstream's body, in pieces.
   * @param name the internal model identifier as a JSON string
   */
  forward(name: Buffer): readonly Buffer[];
  /** Headers of the caller that go upstream: names and values alternate. */
  readonly headers?: readonly string[];
  /** Makes the relay of the answer. */
  answer(reply: Reply, meter: CallMeter): UpstreamHandler;
}
