import { statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { readRegularFile } from '../../runtime/regular-file.ts';

/** The server, database and user of a password, each as a line of the file names it. */
interface Login {
  readonly host: string;
  readonly port: number;
  readonly database: string | undefined;
  /** Absent: that of the operating system. */
  readonly user: string | undefined;
}

/** Where Postgres itself and Debian's keep the socket; the file calls both "localhost". */
const SOCKET_FOLDERS = ['/tmp', '/var/run/postgresql'];
const OTHERS = 0o077; // rights of the group and of everybody

/**
 * Finds passwords in a file as libpq reads it: lines `host:port:database:user:password`, where `*` stands for all and a
 * backslash precedes a colon or a backslash. As there, a file that does not exist has no passwords.
 * @throws TypeError where it is no regular file, or others may read it
 */
export function passwordsOf(path: string): (login: Login) => string | undefined {
  const rows = textOf(path)
    .split(/\r?\n/)
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => fieldsOf(line));
  return ({ host, port, database, user }) => {
    const name = user ?? process.env.PGUSER ?? userInfo().username;
    const wanted = [
      SOCKET_FOLDERS.includes(host) ? 'localhost' : host,
      String(port),
      database ?? name,
      name,
    ];
    const row = rows.find((fields) =>
      wanted.every((value, i) => fields[i] === ANY || fields[i] === value),
    );
    return row === undefined ? undefined : (row[4] as string | undefined);
  };
}

/** A field that stands for all; an escaped star is none. */
const ANY = Symbol('*');

function fieldsOf(line: string): (string | typeof ANY)[] {
  const fields = line.match(/(?:\\.|[^:\\]|\\$)+|(?<=:)(?=:|$)|^(?=:)/g) ?? [];
  return fields.map((field, i) =>
    field === '*' && i < 4 ? ANY : field.replaceAll(/\\(.)/g, '$1'),
  );
}

function textOf(path: string): string {
  const refused = (reason: string) =>
    new TypeError(`the database URL's passfile ${JSON.stringify(path)} cannot be used: ${reason}`);
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return '';
  // libpq warns and goes on without a password
  if (stats.isFile() && (stats.mode & OTHERS) !== 0)
    throw refused('its group or others may read or write it; take their rights with chmod 600');
  try {
    return readRegularFile(path).toString();
  } catch (error) {
    throw refused((error as Error).message);
  }
}
