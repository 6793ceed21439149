import type { Calendar } from '../domain/month.ts';
import type { Clock } from '../domain/ports.ts';
import type { Logger } from '../log.ts';
import type { Database } from '../store/database.ts';

/** Everything that the administration area needs from the rest of the program. */
export interface AdminServices {
  /** Its own connections, so that pages and exports never delay queries of the API. */
  readonly db: Database;
  readonly calendar: Calendar;
  readonly clock: Clock;
  readonly log: Logger;
  readonly keyPrefix: string;
  readonly ownedBy: string;
  readonly api: ApiAddress;
  /** Where people reach the pages, such as "https://admin.example.com"; null: at the address of each request. */
  readonly url: URL | null;
  /** Number of reverse proxies whose X-Forwarded-For is trusted. */
  readonly proxies: number;
  readonly oidc: OidcSettings | null;
}

export interface ApiAddress {
  /** Base address for clients. */
  publicUrl(): string;
  /** Base address for this process itself. */
  url(): string;
  /** Path of the Unix socket that the API listens on; null when it has a port. */
  readonly socket: string | null;
}

export interface OidcSettings {
  readonly issuer: URL;
  readonly clientId: string;
  readonly clientSecret: string | null;
}
