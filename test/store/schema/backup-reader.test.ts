import t from 'tap';
import { BackupReader } from '../../../src/store/schema/backup-reader.ts';

const WHOLE = Buffer.from(
  '{"a":1}\n{"t":"x"}\n1\\\\.\t2\n\\\\.\n3\n\\.\n{"t":"y"}\n\\.\n{"end":true}\n',
);

async function* pieces(...of: Buffer[]): AsyncGenerator<Buffer> {
  yield* of;
}

async function readAll(reader: BackupReader): Promise<unknown[]> {
  const rows = async () => {
    const parts: Buffer[] = [];
    for await (const piece of reader.rows()) parts.push(piece);
    return Buffer.concat(parts).toString();
  };
  const [a, x, xRows] = [await reader.line(), await reader.line(), await rows()];
  const [y, yRows, end] = [await reader.line(), await rows(), await reader.line()];
  return [a, x, xRows, y, yRows, end, await reader.isAtEnd()];
}

const READ = [{ a: 1 }, { t: 'x' }, '1\\\\.\t2\n\\\\.\n3\n', { t: 'y' }, '', { end: true }, true];

t.test('lines and rows are the same however the file is cut into pieces', async (t) => {
  for (let at = 0; at <= WHOLE.length; at++) {
    const reader = new BackupReader(pieces(WHOLE.subarray(0, at), WHOLE.subarray(at)));
    t.strictSame(await readAll(reader), READ, `cut at ${at}`);
  }
  const bytes = [...WHOLE].map((byte) => Buffer.from([byte]));
  t.strictSame(await readAll(new BackupReader(pieces(...bytes))), READ, 'byte by byte');
});

t.test('a backup that ends too early, or is none, is told from a whole one', async (t) => {
  for (let length = 0; length < WHOLE.length; length++) {
    await t.rejects(
      readAll(new BackupReader(pieces(WHOLE.subarray(0, length)))),
      /its end is missing/,
      `${length} bytes`,
    );
  }
  await t.rejects(
    new BackupReader(pieces(Buffer.from('PGDMP\n'))).line(),
    /not a backup of Tollgate/,
  );
  const endless = Buffer.alloc(1 << 20, 'x');
  await t.rejects(
    new BackupReader(pieces(endless, endless, endless)).line(),
    /not a backup of Tollgate/,
  );
  t.equal(await new BackupReader(pieces(Buffer.from('more'))).isAtEnd(), false);
});
