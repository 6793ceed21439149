import { createReadStream, statSync } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { type BackupProgress, backupOf } from '../../store/schema/backup.ts';
import { BackupDamaged, BackupReader } from '../../store/schema/backup-reader.ts';
import { restore } from '../../store/schema/restore.ts';
import type { Write } from '../../store/usage/export.ts';
import { ArgumentError, command, Failure, required } from '../frame/command.ts';
import { inputName, intoFile } from '../frame/files.ts';
import { nowAndThen } from '../frame/text.ts';

const GZIP_LEVEL = 3; // 6 takes twice the time for a tenth less

export const backupCommands = [
  command({
    name: 'database backup',
    summary: 'copy the whole database into one file, while gateways run',
    options: {
      to: required(
        '--to FILE',
        (text) => text,
        'file to write; it must not exist yet; "-" is standard output',
      ),
    },
    notes:
      'One snapshot of all tables of Tollgate, compressed. Works for the embedded database and for any other on one server; a ledger that "tollgate database distribute" spread over several is backed up with the tools of Postgres. The file appears under its name when it is whole. It holds digests of keys and passwords, so only its owner may read it. Sessions are not in it: people sign in again. Records that wait in a spool are not in it either. A database that is not at this version yet is copied as it is, so the backup before an upgrade can be made with the new version.',
    unmigrated: true,
    async run({ db, progress, json }, { to }) {
      if (json && to === '-')
        throw new ArgumentError('--json needs a file: --to - prints the backup itself');
      const report = tableReport(progress);
      let last: BackupProgress = { table: '', rows: 0, bytes: 0 };
      const copy = (write: Write) =>
        db.run(Number.POSITIVE_INFINITY, (sql) => {
          const pieces = backupOf(sql, (at) => {
            last = at;
            report(at);
          });
          const writeAll = async (compressed: AsyncIterable<Buffer>) => {
            for await (const piece of compressed) if (!(await write(piece))) break;
          };
          return pipeline(
            Readable.from(pieces, { objectMode: false }),
            createGzip({ level: GZIP_LEVEL }),
            writeAll,
          );
        });
      if (to === '-') return { print: copy };
      await intoFile(to, copy);
      const { size } = statSync(to);
      const text = `Wrote ${last.rows} rows to ${to} (${sizeText(size)}).`;
      return { json: { file: to, rows: last.rows, bytes: size }, text };
    },
  }),
  command({
    name: 'database restore',
    summary: 'load a backup into an empty database',
    options: {
      from: required(
        '--from FILE',
        (text) => text,
        'file that "tollgate database backup" wrote; "-" is standard input',
      ),
    },
    notes:
      'The database of DATABASE_URL must be new and empty. The command makes the tables as they were when the backup was made, loads all rows in one transaction, and then migrates to this version. Check the result with "tollgate ledger verify", then start gateways.',
    unmigrated: true,
    async run({ config, db, progress, stdin }, { from }) {
      const report = tableReport(progress);
      const input = from === '-' ? stdin : createReadStream(from);
      const pieces = input.pipe(createGunzip());
      input.once('error', (error) => pieces.destroy(error));
      try {
        const rows = await restore(
          db,
          new BackupReader(pieces),
          config.billingTimezone,
          report,
          progress,
        );
        const total = Object.values(rows).reduce((sum, count) => sum + count, 0);
        return {
          json: { file: from, rows },
          text: `Loaded ${total} rows. "tollgate ledger verify" checks them.`,
        };
      } catch (error) {
        const { code = '', message } = error as NodeJS.ErrnoException;
        const name = inputName(from);
        if (code.startsWith('Z_'))
          throw new Failure(`${name}: no backup of Tollgate, or damaged (${message})`);
        if (error instanceof BackupDamaged) throw new Failure(`${name}: ${message}`);
        throw 'syscall' in (error as object)
          ? new Failure(`cannot read ${name}: ${message}`)
          : error;
      } finally {
        input.destroy();
        pieces.destroy();
      }
    },
  }),
];

function tableReport(progress: (line: string) => void): (at: BackupProgress) => void {
  const tell = nowAndThen(progress);
  return ({ table, rows, bytes }) => tell(`${table}: ${rows} rows, ${sizeText(bytes)} so far`);
}

function sizeText(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
