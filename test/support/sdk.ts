import type { Test } from 'tap';
import type { LedgerRow } from './gateway.ts';
import { until } from './until.ts';
import type { TestUpstream } from './upstream.ts';
import { aimockUpstream, demoUpstream } from './upstream.ts';
import { CHAT, type Customer, EMBED, startWorld, type World } from './world.ts';

/** Slugs of the models that SDK tests need besides CHAT and EMBED. */
export const SLUGS = {
  /** Has a slash and a colon, which SDKs encode in URLs. */
  encoded: 'vendor/chat:v1',
  long: 'brand-long',
  broken: 'brand-broken',
  refusing: 'brand-refusing',
  limited: 'brand-limited',
  failing: 'brand-failing',
} as const;

/** The usage an SDK was told for a call. Embeddings have no completion tokens. */
export interface Told {
  readonly prompt_tokens: number;
  readonly completion_tokens?: number;
}

/** Calls of one customer with an SDK against one upstream, and the usage the SDK was told for each. */
export interface SdkDay {
  readonly world: World;
  readonly customer: Customer;
  readonly assistant: string;
  /** Records a finished call; the ledger must have it once. */
  told(endpoint: LedgerRow['endpoint'], usage: Told | null | undefined): void;
  /** The ledger's rows and the recorded calls, in the same form and order. */
  compare(): Promise<{ ledger: string[]; told: string[] }>;
}

export async function startSdkDay(t: Test, upstream: TestUpstream): Promise<SdkDay> {
  const world = await startWorld(t, {}, upstream);
  const { parts } = upstream;
  await world.model(SLUGS.encoded, { upstream: parts.chat });
  for (const part of ['long', 'broken', 'refusing', 'limited', 'failing'] as const) {
    await world.model(SLUGS[part], { upstream: parts[part] });
  }
  const customer = await world.newCustomer();
  const calls: string[] = [];
  const line = (endpoint: string, prompt: number, completion: number) =>
    `${endpoint} ${prompt} ${completion}`;
  return {
    world,
    customer,
    assistant: await world.assistant(customer.company, { model: CHAT }),
    told(endpoint, usage) {
      if (!usage) throw new Error(`the SDK was told no usage for ${endpoint}`);
      calls.push(line(endpoint, usage.prompt_tokens, usage.completion_tokens ?? 0));
    },
    async compare() {
      const complete = await until(
        async () =>
          (await world.ledger(customer.company, 0)).filter(
            ({ outcome }) => outcome === 'completed',
          ),
        'each call is in the ledger',
        ({ length }) => length >= calls.length,
      );
      // no input has 0 tokens: of embeddings, for which aimock tells so, they are estimated
      const promptOf = ({ endpoint, usage_source, prompt_tokens }: LedgerRow) =>
        endpoint === 'embeddings' && usage_source === 'estimated' ? 0 : prompt_tokens;
      return {
        ledger: complete
          .map((row) => line(row.endpoint, promptOf(row), row.completion_tokens))
          .sort(),
        told: calls.toSorted(),
      };
    },
  };
}

/** Starts the demo and aimock. */
export const UPSTREAMS: readonly ((t: Test) => Promise<TestUpstream>)[] = [
  demoUpstream,
  aimockUpstream,
];

export { CHAT, EMBED };

/** A tool that both upstreams call when asked about the weather. */
export const WEATHER = {
  name: 'get_weather',
  description: 'Weather of a city',
  parameters: {
    type: 'object' as const,
    properties: { city: { type: 'string' as const } },
    required: ['city'],
    additionalProperties: false,
  },
};
export const WEATHER_QUESTION = 'Please get weather for Bonn';

/** A JSON schema that both upstreams' answers follow when asked for a capital. */
export const CAPITAL = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const }, population: { type: 'integer' as const } },
  required: ['city', 'population'],
  additionalProperties: false,
};
export const CAPITAL_QUESTION = 'Which city was the capital?';
