import { insertToken, type NewToken } from '../../../src/store/users/token.ts';
import { ask } from '../../support/client.ts';
import type { Office } from '../people.ts';

/** A token for administration over HTTP. */
export async function newToken(office: Office, asked: Partial<NewToken> = {}): Promise<string> {
  const settings = {
    name: 'deploy',
    company_id: null,
    access: 'write',
    created_by: 'test',
    expires_at: null,
  } as const;
  const { token } = await office.sql.begin((sql) =>
    insertToken(sql as never, { ...settings, ...asked }),
  );
  return token;
}

/** An answer, parsed where it is JSON; null for an empty one. */
export interface Told {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look at what they expect
  readonly body: any;
}

/** Sends an operation. */
export async function send(
  office: Office,
  token: string,
  [method, path]: readonly [string, string],
  body?: object,
  headers: Record<string, string> = {},
): Promise<Told> {
  const asked = { method, headers, body, key: token === '' ? undefined : token };
  const {
    status,
    headers: told,
    text,
    json,
  } = await ask(`${office.adminUrl}/api/v1${path}`, asked);
  return { status, headers: told, body: text === '' ? null : (json ?? text) };
}
