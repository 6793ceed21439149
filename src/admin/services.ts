import type { Calendar } from '../domain/month.ts';
import type { Clock } from '../domain/ports.ts';
import type { Logger } from '../log.ts';
import type { Database } from '../store/database.ts';

/** What the administration area is made of; put together in app.ts and never changed. */
export interface AdminServices {
  /** Connections of its own: pages and exports never wait in front of the API's queries. */
  readonly db: Database;
  readonly calendar: Calendar;
  readonly clock: Clock;
  readonly log: Logger;
  readonly keyPrefix: string;
  readonly ownedBy: string;
  readonly api: ApiAddress;
  /** Where people reach the pages, such as "https://admin.example.com"; null: at whatever address they ask for. */
  readonly url: URL | null;
  /** Reverse proxies in front of the pages whose X-Forwarded-For is to be believed. */
  readonly proxies: number;
  readonly oidc: OidcSettings | null;
}

export interface ApiAddress {
  /** Base address clients use, for snippets. */
  publicUrl(): string;
  /** Base address this process reaches its own API at. */
  url(): string;
  /** Path of the Unix socket it listens on instead. */
  readonly socket: string | null;
}

export interface OidcSettings {
  readonly issuer: URL;
  readonly clientId: string;
  readonly clientSecret: string | null;
}
