import { readPresentName } from '../../domain/field.ts';
import {
  type GatewayRow,
  type Overview,
  type Period,
  problemsOf,
  wellText,
} from '../../domain/reports/overview.ts';
import { reasonOfCode } from '../../domain/reports/request-explanation.ts';
import { duration, NO_OPERATOR } from '../../domain/wording/start-notice.ts';
import { forgetGateways } from '../../operations/statement.ts';
import { readOverview } from '../../store/usage/overview.ts';
import { command } from '../frame/command.ts';
import { alarm, listing, minute, plainly, yesNo } from '../frame/text.ts';

export const statusCommand = command({
  name: 'status',
  summary: 'usage of all companies, gateways, what is wrong; exits 1 when something is',
  options: {},
  notes:
    'The same facts as the first page of operators: cost, requests and tokens of today and of this month beside those of the same time yesterday and a month ago, top spenders, budgets near their end, models in the last 24 hours and those that tell no usage, why requests were refused or failed in them, gateways, and what was changed last.',
  async run({ read }) {
    const overview = await readOverview((query) => read(async (sql) => query(sql)));
    const problems = problemsOf(overview);
    const wrong = problems.map(({ text, remedy }) => `- ${text} ${remedy}`).join('\n');
    const notice = overview.has_operator
      ? []
      : [`${NO_OPERATOR.text} Make one: ${NO_OPERATOR.command}`];
    const parts = [alarm(wrong) || wellText(overview.last_day), ...notice, ...facts(overview)];
    const ok = problems.length === 0;
    return { json: { ok, problems, ...overview }, text: parts.join('\n\n'), exit: ok ? 0 : 1 };
  },
});

export const gatewayForgetCommand = command({
  name: 'gateway forget',
  summary: 'give up the records of a gateway that is gone, so that months can be closed',
  operand: { shown: 'NAME', meaning: 'as "tollgate status" shows it', read: readPresentName },
  options: {},
  notes:
    'For a gateway that is lost with its spool. While the spool is there, start a gateway with its SPOOL_DIR instead: that one books the records. Should they still be booked later, they become corrections on the next statement.',
  async run({ transact }, _values, name) {
    const gone = await transact((sql) => forgetGateways(sql, name));
    const lines = gone.map(
      ({ last_seen_at, backlog }) =>
        `Forgot ${name}, last seen ${last_seen_at}, with ${backlog} usage records.`,
    );
    return { json: gone, text: lines.join('\n') };
  },
});

function facts(overview: Overview): string[] {
  const { today, month, budgets, last_day } = overview;
  const sums = [
    { of: `today, ${today.begins}`, ...today },
    { of: 'yesterday at this time', ...today.before },
    { of: `month ${month.begins.slice(0, 7)}`, ...month },
    { of: 'a month ago', ...month.before },
  ];
  return [
    listing(
      sums,
      {
        'API CALLS': ({ of }) => of,
        EUR: ({ cost_eur }) => cost_eur,
        ...plainly('requests', 'tokens'),
      },
      '',
    ),
    spenders('TODAY', today),
    spenders('THIS MONTH', month),
    listing(
      budgets.nearest,
      {
        'BUDGET NEAR ITS END': ({ company, key }) =>
          key === null ? company.name : `${company.name}, key ${key.name}`,
        'USED %': ({ percent }) => percent,
        'SPENT EUR': ({ spent_eur }) => spent_eur,
        'OF EUR': ({ budget_eur }) => budget_eur,
        'FORECAST %': ({ forecast_percent }) => forecast_percent,
        'REACHED ON': ({ reached_on }) => reached_on,
        OWNER: ({ owners }) => owners.join(', '),
      },
      'No budget is near its end.',
    ) +
      (budgets.total > budgets.nearest.length
        ? `\nand ${budgets.total - budgets.nearest.length} more`
        : ''),
    listing(
      overview.refused_now,
      {
        'REFUSED OR FAILED NOW': ({ company }) =>
          company === null ? '(no valid key)' : (company.name ?? company.id),
        WHY: ({ code }) => reasonOfCode(code).text,
        ...plainly('requests', 'of'),
        OWNER: ({ owners }) => owners.join(', '),
      },
      'No request was refused or failed in this hour and the one before.',
    ),
    listing(
      overview.models,
      {
        'MODEL, LAST 24 H': ({ slug }) => slug || '(without a model)',
        ...plainly('requests', 'refused', 'failed', 'upstream_failed'),
        'MEAN MS': ({ mean_ms }) => mean_ms && Math.round(mean_ms),
      },
      'No requests are known of the last 24 hours: there were none, or the request trail is off (REQUEST_TRAIL_DAYS=0).',
    ),
    untoldUsage(overview.untold_usage),
    listing(
      overview.unread_usage,
      { 'USAGE NOT READ': ({ slug }) => slug, MEMBERS: ({ members }) => members.join(', ') },
      'Each member of a usage that tells tokens is read, and each tier that served a call has a rate.',
    ),
    `Refused in the last 24 hours: ${last_day.refused} of ${last_day.requests} requests. Failed: ${last_day.failed}.`,
    listing(
      last_day.reasons,
      {
        'REFUSED OR FAILED, LAST 24 H': ({ code }) => reasonOfCode(code).text,
        CODE: ({ code }) => code,
        STATUS: ({ code }) => reasonOfCode(code).status,
        ...plainly('requests', 'companies'),
        'MOST OFTEN': ({ most }) =>
          most === null ? '(no valid key)' : `${most.name ?? most.id}: ${most.requests}`,
      },
      'No request is known to have been refused or to have failed.',
    ),
    listing(
      overview.gateways,
      {
        GATEWAY: ({ name }) => name,
        STATE: stateOf,
        VERSION: ({ version }) => version,
        'STARTED (UTC)': ({ started_at }) => minute(new Date(started_at)),
        'SEEN (UTC)': ({ last_seen_at }) => minute(new Date(last_seen_at)),
        'IN FLIGHT': ({ requests_in_flight }) => requests_in_flight,
        WAITING: ({ backlog, oldest_seconds }) =>
          backlog === 0 ? '0' : `${backlog}, ${duration(oldest_seconds)}`,
        'DISK FAILS': ({ spool_failing }) => yesNo(spool_failing),
      },
      'No gateway has written that it runs.',
      ['WAITING'],
    ),
    `Records set aside: ${overview.set_aside}. Deliveries of events that fail: ${overview.failing_deliveries}, given up: ${overview.dead_deliveries}.`,
    listing(
      overview.changes,
      {
        'CHANGED AT (UTC)': ({ at }) => minute(new Date(at)),
        BY: ({ who }) => who,
        WHAT: ({ what }) => what,
      },
      'Nothing has changed yet.',
    ),
  ];
}

function spenders(when: string, { spenders: rows }: Period): string {
  return listing(
    rows,
    {
      [`TOP SPENDERS ${when}`]: ({ name, id }) => name ?? id,
      EUR: ({ cost_eur }) => cost_eur,
      'SHARE %': ({ share }) => share,
      ID: ({ id }) => id,
    },
    `Nobody has spent anything ${when.toLowerCase()}.`,
  );
}

function untoldUsage(rows: Overview['untold_usage']): string {
  return listing(
    rows,
    {
      'USAGE NOT TOLD SINCE YESTERDAY': ({ slug }) => slug,
      ESTIMATED: ({ estimated }) => estimated,
      'OF ANSWERS': ({ requests }) => requests,
    },
    'The upstream told the usage of each whole answer since yesterday.',
  );
}

function stateOf({ gone, limits_alone }: GatewayRow): string {
  return gone ? 'gone' : limits_alone ? 'limits alone' : 'running';
}
