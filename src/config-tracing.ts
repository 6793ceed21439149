/** The variables of OpenTelemetry that say whether and which traces are recorded, as its specification has them. */

export interface TraceVariables {
  /** OTEL_SDK_DISABLED. */
  readonly disabled: string;
  /** OTEL_TRACES_EXPORTER: names with commas between them. */
  readonly exporters: string;
  /** OTEL_TRACES_SAMPLER. */
  readonly sampler: string;
  /** OTEL_TRACES_SAMPLER_ARG; null: unset. */
  readonly share: string | null;
}

export interface Tracing {
  /** Where spans are posted to, without /v1/traces. */
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly service: string;
  readonly sampler: Sampler;
  /** Variables whose values are not known here; each has the meaning of one that is unset. */
  readonly ignored: readonly { readonly variable: string; readonly value: string }[];
}

/** Which traces are recorded. */
export interface Sampler {
  /** 0 to 1. */
  readonly share: number;
  /** A trace that a caller began is recorded where the caller's span was, whatever the share. */
  readonly followsCaller: boolean;
}

/** The share of each sampler; null: OTEL_TRACES_SAMPLER_ARG. */
const SAMPLERS: ReadonlyMap<string, number | null> = new Map([
  ['always_on', 1],
  ['always_off', 0],
  ['traceidratio', null],
]);
const FOLLOWING = /^parentbased_/;
const SHARE = /^(?:0(?:\.\d*)?|1(?:\.0*)?|\.\d+)$/;

/** @returns null: no traces. What is not known is named in `ignored`, as the specification demands, and is no mistake */
export function tracingOf(
  { disabled, exporters, sampler, share }: TraceVariables,
  target: Pick<Tracing, 'headers' | 'service'> & { readonly url: URL | null },
): Tracing | null {
  const { url } = target;
  if (url === null || disabled.toLowerCase() === 'true') return null;
  const ignored: { variable: string; value: string }[] = [];
  const ignore = (variable: string, value: string) => ignored.push({ variable, value });
  if (disabled.toLowerCase() !== 'false') ignore('OTEL_SDK_DISABLED', disabled);
  const names = exporters.split(',').map((name) => name.trim().toLowerCase());
  for (const name of names)
    if (name !== 'otlp' && name !== 'none') ignore('OTEL_TRACES_EXPORTER', name);
  if (names.includes('none') && !names.includes('otlp')) return null;
  const name = sampler.toLowerCase();
  let part = SAMPLERS.get(name.replace(FOLLOWING, ''));
  if (part === undefined) ignore('OTEL_TRACES_SAMPLER', sampler);
  if (part === null && share !== null && !SHARE.test(share)) {
    ignore('OTEL_TRACES_SAMPLER_ARG', share);
    part = 1;
  }
  const followsCaller = part === undefined || FOLLOWING.test(name);
  return {
    ...target,
    url,
    sampler: { share: part === null ? Number(share ?? 1) : (part ?? 1), followsCaller },
    ignored,
  };
}
