import type { Test } from 'tap';
import { type Answer, type Ask, ask } from './client.ts';
import { startGateway, type TestGateway } from './gateway.ts';
import { until } from './until.ts';
import { demoUpstream, MASTER_KEY, type TestUpstream } from './upstream.ts';

/** Slugs of the models every company of a world may use; OVERSEAS is hosted outside the EU. */
export const CHAT = 'brand-chat';
export const EMBED = 'brand-embed';
export const OVERSEAS = 'brand-overseas';

/** A gateway in front of an upstream, with shared models and one customer to begin with. */
export interface World extends TestGateway {
  readonly upstream: TestUpstream;
  readonly customer: Customer;
  /** Adds a company with a key of all scopes. */
  newCustomer(settings?: Parameters<TestGateway['company']>[0]): Promise<Customer>;
  /** Adds a model of one company alone, in front of a misbehaving model of the upstream. @returns its slug */
  part(customer: Customer, slug: string, upstream: string): Promise<string>;
}

export interface Customer {
  readonly company: string;
  readonly key: string;
  ask(path: string, ask?: Ask): Promise<Answer>;
  /** A chat request with one user message, unless `more` says otherwise. */
  chat(more?: object): Promise<Answer>;
  embed(more?: object): Promise<Answer>;
  run(assistant: string, more?: object): Promise<Answer>;
}

/** Starts a world for the length of a test; its upstream is the demo unless one is given. @param prepare as for `startGateway` */
export async function startWorld(
  t: Test,
  env: Record<string, string> = {},
  given?: TestUpstream,
  prepare?: Parameters<typeof startGateway>[3],
): Promise<World> {
  const upstream = given ?? (await demoUpstream(t));
  const gateway = await startGateway(t, upstream.url, env, prepare);
  await gateway.model(CHAT, { upstream: upstream.parts.chat });
  await gateway.model(EMBED, { upstream: upstream.parts.embedding, kind: 'embedding', input: '0.1', output: '0' });
  await gateway.model(OVERSEAS, { upstream: upstream.parts.chat, eu: false });

  async function newCustomer(settings = {}): Promise<Customer> {
    const company = await gateway.company(settings);
    const key = await gateway.key(company);
    return customerWith(gateway.url, company, key);
  }
  return {
    ...gateway,
    upstream,
    customer: await newCustomer(),
    newCustomer,
    async part(customer, slug, model) {
      await gateway.model(slug, { upstream: model, company: customer.company });
      // a company that is in memory gets it a moment later
      await until(
        async () => (await customer.ask(`/models/${slug}`)).status === 200,
        `the gateway serves model ${slug}`,
      );
      return slug;
    },
  };
}

export function customerWith(url: string, company: string, key: string): Customer {
  const post = (path: string, body: object) => ask(url + path, { key, body });
  const messages = [{ role: 'user', content: 'Hello there' }];
  return {
    company,
    key,
    ask: (path, more = {}) => ask(url + path, { key, ...more }),
    chat: (more = {}) => post('/chat/completions', { model: CHAT, messages, ...more }),
    embed: (more = {}) => post('/embeddings', { model: EMBED, input: 'Hello there', ...more }),
    run: (assistant, more = {}) => post(`/assistants/${assistant}/run`, { messages, ...more }),
  };
}

/** All of an answer that a client can read, except the status line. */
export function visible({ headers, text }: Answer): string {
  return [...headers].map(([name, value]) => `${name}: ${value}\n`).join('') + text;
}

/** What clients must never see: internal model names, the master key, hosts, provider headers. */
export const INTERNAL = new RegExp(`internal|${MASTER_KEY}|sk-internal|litellm|x-ms-|openai-|Traceback`, 'i');
