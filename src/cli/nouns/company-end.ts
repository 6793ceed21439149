import { readText, readUuid } from '../../domain/field.ts';
import { closeCompany, eraseCompany, reopenCompany } from '../../operations/company-end.ts';
import { findCompany } from '../../store/company/company.ts';
import { archiveCompany, type Manifest } from '../../store/usage/archive.ts';
import type { Write } from '../../store/usage/export.ts';
import { ArgumentError, command, flag, optional, required } from '../frame/command.ts';
import { intoFile } from '../frame/files.ts';
import { erasedText, table } from '../frame/text.ts';
import { show } from './company.ts';

const operand = { shown: 'ID', meaning: 'id of the company', read: readUuid };

/** How a company ends: closed, exported, its people erased. */
export const companyEndCommands = [
  command({
    name: 'company close',
    summary: 'refuse all keys of a company and every change of it',
    operand,
    options: {},
    notes:
      'Within a second its keys get 401 on every gateway, like unknown ones; calls in flight end and are booked. Its users can still read its pages. "tollgate company reopen" undoes it.',
    async run({ transact }, _values, id) {
      const { company, already } = await transact((sql) => closeCompany(sql, id));
      return {
        json: company,
        text: show(already ? 'The company was closed already.' : 'Company closed.', company),
      };
    },
  }),
  command({
    name: 'company reopen',
    summary: 'open a closed company again, with the keys that were active',
    operand,
    options: {},
    async run({ transact }, _values, id) {
      const { company, already } = await transact((sql) => reopenCompany(sql, id));
      return {
        json: company,
        text: show(already ? 'The company is open.' : 'Company reopened.', company),
      };
    },
  }),
  command({
    name: 'company export',
    summary: 'write all that is stored about a company into one archive',
    operand,
    options: {
      to: required(
        '--to FILE.tar.gz',
        (text) => text,
        'file to write; it must not exist yet; "-" is standard output',
      ),
      internal: flag(
        '--internal',
        'include what only operators see: internal model names, and who of them did something',
      ),
    },
    notes:
      'The archive holds one file of JSON lines for each table, all of one instant, and manifest.json, which lists them with row counts and SHA-256. EUR amounts are exact decimal texts. Secrets (digests of keys, password hashes) are never in it. FILE is there when it is whole, and not before. Safe while gateways run.',
    async run({ transact, snapshot, json }, { to, internal }, id) {
      if (json && to === '-')
        throw new ArgumentError('--json needs a file: --to - prints the archive itself');
      const { name } = await transact((sql) => findCompany(sql, id));
      const archive = (write: Write) => {
        return snapshot(id, (sql) =>
          archiveCompany(sql, { company: { id, name }, internal }, write),
        );
      };
      if (to === '-') return { print: archive };
      const manifest = await intoFile(to, archive);
      return { json: { file: to, ...manifest }, text: archiveText(to, manifest) };
    },
  }),
  command({
    name: 'company erase',
    summary: 'erase the names and addresses of a closed company',
    operand,
    options: {
      yes: optional(
        '--yes NAME',
        readText,
        "the company's name, to erase; without it the command only counts",
      ),
    },
    notes:
      'Users, assistants, key names, the name of the company and their traces in the audit log are erased: addresses get random pseudonyms that nothing ties to them. Ledger, sums and seals stay and can be verified. This cannot be undone, and the company cannot be reopened: export it first. sql/PRIVACY.md is written for data-protection officers.',
    async run({ transact }, { yes }, id) {
      const erased = await transact(
        (sql) => eraseCompany(sql, id, yes ?? null),
        Number.POSITIVE_INFINITY,
      );
      const dryRun = yes === undefined;
      const text = erasedText(
        dryRun ? 'This would be erased; add --yes NAME to do it.' : 'Company erased.',
        erased,
      );
      return { json: { ...erased, dry_run: dryRun }, text };
    },
  }),
];

function archiveText(path: string, { files, taken_at }: Manifest): string {
  const rows = files.map(({ name, rows, what }) => [name, rows, what]);
  return `Written to ${path}, as of ${taken_at}.\n\n${table(['FILE', 'ROWS', 'WHAT'], rows)}`;
}
