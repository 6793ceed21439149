import type { FactorPolicy } from '../../operations/second-factor.ts';
import type { RouterAddress } from '../../upstream/router-models.ts';
import type { BrandSettings } from './brand.ts';

/** The settings that the gateway sends to the pages' process: plain JSON over their private channel. */
export interface PagesSettings {
  /** Known to these two processes; every request that the gateway forwards carries it. */
  readonly secret: string;
  readonly databaseUrl: string;
  /** The file with the URL, where it comes from one. */
  readonly databaseUrlFile: string | null;
  /** Connections of the pages alone: pages and exports never delay queries of the API. */
  readonly databaseConnections: number;
  readonly billingTimezone: string;
  readonly logLevel: string;
  /** Days for which it is kept what became of each request; 0: it is not. */
  readonly requestTrailDays: number;
  readonly keyPrefix: string;
  readonly ownedBy: string;
  /** The currency in which the upstream tells its own cost, and the EUR that a unit is worth; null: not known. */
  readonly upstreamCurrency: string;
  readonly upstreamRate: string | null;
  /** For the pages on which models are chosen from what the router offers: operators' own. */
  readonly router: RouterAddress;
  /** Base address of the API for clients. */
  readonly publicUrl: string;
  /** Base address of the API within this machine. */
  readonly apiUrl: string;
  /** Path of the Unix socket that the API listens on; null when it has a port. */
  readonly apiSocket: string | null;
  /** Where people reach the pages, such as "https://admin.example.com"; null: at the address of each request. */
  readonly adminUrl: string | null;
  /** The pages are reached by https: as ADMIN_URL says, or because the listener speaks TLS. */
  readonly isSecure: boolean;
  readonly oidc: OidcSettings | null;
  readonly secondFactor: FactorPolicy;
  readonly brand: BrandSettings;
  /** How invitations are sent by e-mail; null: links are copied only. */
  readonly mail: { readonly url: string; readonly from: string } | null;
}

export interface OidcSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string | null;
  /** What is asked for, with spaces between; "openid" is among it. */
  readonly scope: string;
  /** The claim with a person's groups: its name, or a path with dots; null: groups are not read. */
  readonly groupsClaim: string | null;
}

/** The messages of the pages' process to the gateway: the port it listens on, and lines of its log. */
export type PagesMessage = { readonly port: number } | { readonly line: string };

/** Headers between the two processes. Neither reaches a client, nor is taken from one. */
export const CLIENT_HEADER = 'x-tollgate-client'; // the secret, a space, and the address of the client
export const SESSION_HEADER = 'x-tollgate-session'; // of an answer: the token of a session that was found to be valid
