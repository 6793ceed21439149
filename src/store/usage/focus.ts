import { csvHeading, PLAIN_CSV } from '../../domain/documents/csv.ts';
import { COLUMN_PARTS, COST_PARTS, type CostPart } from '../../domain/pricing/parts.ts';
import { intervalsIn, wholeMonth } from '../../domain/reports/day-range.ts';
import type { Role } from '../../domain/user.ts';
import { dayBegins, utcSecond } from '../connection/expressions.ts';
import type { ConnectionSql, Sql } from '../connection/pool.ts';
import { leaveCompany } from '../connection/tenant-role.ts';
import { IN_COLUMNS } from '../statement/cost.ts';
import { requireRows } from '../statement/moves.ts';
import { zoneOf } from '../statement/statement.ts';
import { constant, copyOut, type Write, withoutFormula } from './export.ts';

/** What the operator calls itself. */
export interface FocusNames {
  readonly name: string;
  /** The first line is who issues invoices; null: `name`. */
  readonly seller: readonly string[] | null;
}

export interface FocusQuestion {
  readonly brand: FocusNames;
  /** null: all companies, which takes the rights of the operator. */
  readonly company: string | null;
  /** Its first day. */
  readonly month: string;
  /** People of a company see what they pay: ListCost is what was charged, without the factor on its prices. */
  readonly role: Role;
  /** Requests that one statement reads at most, but for those of one day of a company; by default 100,000. */
  readonly most?: number;
}

/** The name of each part, what it is in descriptions, and its units. */
const METERS: Readonly<Record<CostPart, readonly [meter: string, shown: string, units: string]>> = {
  ...(Object.fromEntries(
    COST_PARTS.map((part) => {
      const words = part.replaceAll('_', ' ');
      const meter = words.replaceAll(/\b[a-z]/g, (letter) => letter.toUpperCase());
      return [part, [meter, `${words} tokens`, 'Tokens']];
    }),
  ) as Record<CostPart, [string, string, string]>),
  search_unit: ['Search Units', 'search units', 'Search Units'],
  request: ['Calls', 'calls', 'Calls'],
};
/** A member of METERS as SQL over `part`. */
const ofPart = (member: 0 | 1 | 2) =>
  `case part ${COST_PARTS.map((part) => `when '${part}' then '${METERS[part][member]}'`).join(' ')} end`;

/** The name of a rate as SQL over its JSON: `rateName` of src/domain/pricing/rates.ts. */
const RATE_NAME = "concat_ws(' ', rate ->> 'tier', rate ->> 'hours', 'over ' || (rate ->> 'over'))";

/** Keys of tags that are not the user's have a prefix, the same at all times and for all brands. */
const tag = (key: string) => `'tollgate/${key}'`;

/**
 * The columns of FOCUS 1.2 (focus.finops.org), each as SQL over `charges` of a query below. Numbers are exact decimal
 * text. @param zone and the rest of the question as constants of SQL
 */
function columns({
  zone,
  month,
  issuer,
  provider,
  list,
}: Readonly<Record<'zone' | 'month' | 'issuer' | 'provider' | 'list', string>>) {
  const instant = (day: string) => utcSecond(dayBegins(day, zone));
  const exact = (sql: string) => `trim_scale(${sql})::text`;
  const sku = "model_slug || ':' || part || case when rate = '' then '' else ':' || rate end";
  const [billed, listed] = [exact('tokens * price * 0.001'), exact(`tokens * ${list} * 0.001`)];
  return {
    BilledCost: billed,
    EffectiveCost: billed,
    ContractedCost: billed,
    ListCost: listed,
    BillingCurrency: "'EUR'",
    BillingPeriodStart: instant(month),
    BillingPeriodEnd: instant(`(${month}::date + interval '1 month')::date`),
    ChargePeriodStart: instant('day'),
    ChargePeriodEnd: instant('(day + 1)'),
    ChargeCategory: "'Usage'",
    ChargeClass: "case when late then 'Correction' end",
    ChargeFrequency: "'Usage-Based'",
    ChargeDescription: `model_slug || ', ' || ${ofPart(1)} || case when rate = '' then '' else ', rate ' || rate end || case when late then ', late call of ' || to_char(billing_month, 'YYYY-MM') else '' end`,
    ConsumedQuantity: exact('tokens'),
    ConsumedUnit: ofPart(2),
    PricingQuantity: exact('tokens * 0.001'),
    PricingUnit: `'1000 ' || ${ofPart(2)}`,
    ListUnitPrice: exact(list),
    ContractedUnitPrice: exact('price'),
    InvoiceId: 'number::text',
    InvoiceIssuerName: issuer,
    ProviderName: provider,
    PublisherName: provider,
    BillingAccountId: 'company_id::text',
    BillingAccountName: withoutFormula('company_name'),
    SubAccountId: 'api_key_id::text',
    SubAccountName: withoutFormula('coalesce(key_name, api_key_id::text)'),
    ServiceName: "'Model access'",
    ServiceCategory: "'AI and Machine Learning'",
    ServiceSubcategory: "'Generative AI'",
    SkuId: sku,
    // the same at all times and for all companies: neither when a price holds nor whose it is may be in it
    SkuPriceId: sku,
    SkuMeter: ofPart(0),
    SkuPriceDetails:
      "json_strip_nulls(json_build_object('x_Model', model_slug, 'x_Part', part, 'x_Rate', nullif(rate, '')))::text",
    Tags: withoutFormula(
      `json_strip_nulls(json_build_object(${tag('cost_center')}, nullif(cost_center, ''), ${tag('key')}, key_name, ${tag('endpoint')}, endpoint))::text`,
    ),
  };
}

/** What one statement reads: of some companies, or of one a few days. Its rows stand together in the file. */
interface Piece {
  readonly companies: string[];
  /** The days of timely calls: first, and first no more; null: without an end. */
  readonly from: string | null;
  readonly before: string | null;
  /** Whether timely calls are in it, and late ones. */
  readonly timely: boolean;
  readonly late: boolean;
}

/** Requests of a piece: of the first so few that its rows are there at once, then twice as many each time. */
const FIRST_REQUESTS = 2000;
const MOST_REQUESTS = 100_000;

/** The pieces of a month, in the order of their rows. More calls of one company than a piece has are divided by days. */
async function piecesOf(
  sql: Sql,
  { company, month, most: last = MOST_REQUESTS }: FocusQuestion,
): Promise<Piece[]> {
  const own = company === null ? sql`` : sql`and company_id = ${company}`;
  const companies = await sql<{ id: string; requests: number }[]>`
    with spent as materialized (
      select company_id, requests from monthly_spend where billing_month = ${month}::date and requests > 0 ${own}),
    late as (
      select company_id from late_usage where true ${own}
      union
      select company_id from statement_rows join statements s using (company_id, number)
      where s.billing_month = ${month}::date and statement_rows.billing_month <> s.billing_month ${own}),
    counted as (select company_id as id, coalesce(requests, 0)::float8 as requests from spent full join late using (company_id))
    select id::text, requests from counted left join (select id, name from companies) c using (id) order by c.name, id`;
  const pieces: Piece[] = [];
  let room = -1; // below 0: the next company begins a piece
  let most = Math.min(FIRST_REQUESTS, last);
  for (const { id, requests } of companies) {
    if (requests > last) {
      pieces.push(...piecesOfDays(id, month), { ...NONE, companies: [id], late: true });
      room = -1;
    } else if (requests <= room) {
      (pieces.at(-1) as Piece).companies.push(id);
      room -= requests;
    } else {
      pieces.push({ ...NONE, companies: [id], timely: true, late: true });
      room = most - requests;
      most = Math.min(2 * most, last);
    }
  }
  return pieces;
}

const NONE = { from: null, before: null, timely: false, late: false };

/** A piece for each day; calls of the days around belong to the month too. */
function piecesOfDays(company: string, month: string): Piece[] {
  const days = intervalsIn(wholeMonth(month), 'day');
  return days.map((day, at) => ({
    ...NONE,
    companies: [company],
    timely: true,
    from: at === 0 ? null : day,
    before: days[at + 1] ?? null,
  }));
}

/**
 * The query of a piece of a month: a row for each day, model, key, cost centre, endpoint, rate, part of the cost and unit price.
 * BilledCost adds up to the statements of the month, or to what they would be now: late calls of earlier months are rows of
 * their own, and late calls of this one are on a later statement. The list price is that before the company's factor: what
 * was charged divided by the factor, unless the list of that instant says so itself.
 */
function queryOf(zone: string, { brand, month: first, role }: FocusQuestion, piece: Piece) {
  const month = `${constant(first)}::date`;
  const [issuer, provider] = [constant(brand.seller?.[0] ?? brand.name), constant(brand.name)];
  const isListed = role === 'operator';
  const focusColumns = columns({
    zone,
    month,
    issuer,
    provider,
    list: isListed ? 'list' : 'price',
  });
  const own = `company_id = any (array[${piece.companies.map(constant)}]::uuid[])`;
  const begins = (day: string) => dayBegins(constant(day), zone);
  const within = [
    `u.billing_month = ${month} and u.${own}`,
    ...(piece.from === null ? [] : [`u.occurred_at >= ${begins(piece.from)}`]),
    ...(piece.before === null ? [] : [`u.occurred_at < ${begins(piece.before)}`]),
    ...(piece.timely ? [] : ['false']),
  ].join(' and ');
  const cells = `u.company_id, u.billing_month, (u.occurred_at at time zone ${zone})::date as day, u.model_slug, u.api_key_id,
    u.cost_center, u.endpoint, u.price_input, u.price_output, u.price_cache_read, u.price_cache_write, coalesce(u.rate, '') as rate, u.parts`;
  const sums = `min(u.occurred_at) as at, count(*) as calls, ${COLUMN_PARTS.map((part) => `sum(${IN_COLUMNS[part][0]}) as ${part}`).join(', ')}`;
  const places = COST_PARTS.map((part, at) => `when '${part}' then ${at}`).join(' ');
  const parts = COLUMN_PARTS.map((part) => `('${part}', ${part}, price_${part})`).join(', ');
  const text = `with
    closed as materialized (select company_id, number from statements where billing_month = ${month} and ${own}),
    elsewhere as materialized (
      select company_id, request_id from late_usage where billing_month = ${month} and ${own}
      union all
      select r.company_id, unnest(r.request_ids) from statement_rows r join statements s using (company_id, number)
      where r.billing_month = ${month} and s.billing_month <> ${month} and r.${own}),
    taken as materialized (
      select r.company_id, r.billing_month, unnest(r.request_ids) as request_id from statement_rows r join closed using (company_id, number)
      where r.billing_month <> ${month} and ${piece.late}
      union all
      select company_id, billing_month, request_id from late_usage where ${own} and ${piece.late}
        and company_id <> all (array(select company_id from closed)) and (company_id = any (array(
          select company_id from monthly_spend where billing_month = ${month} and statement is null and requests > 0 and ${own}))
        or (billing_month < ${month} and company_id <> all (array(select company_id from statements where billing_month >= ${month} and ${own}))))),
    timely as materialized (
      select ${cells}, false as late, ${sums} from api_usage u where ${within}
        and not exists (select from elsewhere e where e.company_id = u.company_id and e.request_id = u.request_id)
      group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13),
    late_ones as materialized (
      select ${cells}, true as late, ${sums} from taken t join api_usage u
        on u.company_id = t.company_id and u.billing_month = t.billing_month and u.request_id = t.request_id
      group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13),
    cells as (select * from timely union all select * from late_ones),
    -- calls with a list of their parts are told by it, each list once for the calls that have it
    parts as (
      select cells.*, p.* from cells, lateral (values ${parts}) as p (part, tokens, price) where parts is null and tokens > 0
      union all
      select cells.*, part, units * calls, price from cells, jsonb_to_recordset(cells.parts) as p (part text, units bigint, price numeric)
      where parts is not null),
    sold as materialized (
      select company_id, billing_month, day, late, model_slug, api_key_id, cost_center, endpoint, rate, case part ${places} end as place, part, price,
        sum(tokens) as tokens, min(at) as at
      from parts group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    ${isListed ? listed(own) : 'listed as (select * from sold)'},
    charges as (
      select listed.*, closed.number, c.name as company_name, k.name as key_name
      from listed left join closed using (company_id)
      left join companies c on c.id = company_id left join api_keys k on k.id = api_key_id)
    select ${Object.entries(focusColumns)
      .map(([name, column]) => `${column} as "${name}"`)
      .join(', ')}
    from (select * from charges
      order by company_name, company_id, late, day, model_slug collate "C", api_key_id, cost_center collate "C", endpoint, rate collate "C", place, price) as charges`;
  return { text, names: Object.keys(focusColumns) };
}

/**
 * Common table expressions that end with `listed`: the rows of `sold`, with the list price of their instant. The history of
 * each model and of each factor is read once, as times of a price; `list_price` and `price_factor` of models.sql say the
 * same of one instant, and a test compares them. @param own condition of the companies
 */
function listed(own: string): string {
  const parts = COST_PARTS.map((part) => `('', '${part}', ${part})`).join(', ');
  const ofRates = COST_PARTS.map((part) => `('${part}', rate ->> '${part}')`).join(', ');
  const times = (of: string) =>
    `select company_id, slug, v.rate, part, list, valid_from, until, input is not null as holds
      from (select *, lead(valid_from) over (partition by slug, company_id order by valid_from) as until from model_prices
        where slug = any (array(select distinct model_slug from sold)) and ${of}) as p, lateral (
        values ${parts} union all
        select ${RATE_NAME}, r.part, r.list::numeric from jsonb_array_elements(p.rates) as rate, lateral (values ${ofRates}) as r (part, list)
      ) as v (rate, part, list)
      where coalesce(until > (select min(at) from sold), true)`;
  const during = (time: string) =>
    `s.at >= ${time}.valid_from and (${time}.until is null or s.at < ${time}.until)`;
  return `own_times as materialized (${times(own)}),
    shared_times as materialized (${times('company_id is null')}),
    factors as materialized (
      select company_id, factor, lag(factor, 1, 1.0) over history as before, valid_from, lead(valid_from) over history as until
      from company_price_factors where ${own} window history as (partition by company_id order by valid_from)),
    priced as (
      select s.*, coalesce(f.factor, 1) as factor, f.before, case when o.holds then o.list else c.list end as told
      from sold s
      left join factors f on f.company_id = s.company_id and ${during('f')}
      left join own_times o on o.company_id = s.company_id and o.slug = s.model_slug and o.rate = s.rate and o.part = s.part and ${during('o')}
      left join shared_times c on c.slug = s.model_slug and c.rate = s.rate and c.part = s.part and ${during('c')}),
    listed as (
      select *, case
        when told * factor = price or told * before = price then told
        when round(price / factor, 12) * factor = price then round(price / factor, 12) else price end as list
      from priced)`;
}

/** A row by its columns; what is null has no value. */
type FocusRow = Readonly<Record<keyof ReturnType<typeof columns>, string | null>>;

/**
 * The charges of a month in batches, so that it takes the memory of one.
 * @param sql a transaction of one snapshot
 * @throws Refused when the rows of the month are away
 */
export async function* readFocus(
  sql: Sql,
  asked: FocusQuestion,
  batch = 1000,
): AsyncGenerator<readonly FocusRow[]> {
  await requireRows(sql, [asked.month]);
  const zone = constant(await zoneOf(sql));
  for (const piece of await piecesOf(sql, asked))
    yield* sql.unsafe<FocusRow[]>(queryOf(zone, asked, piece).text).cursor(batch);
}

/**
 * Writes the charges of a month as CSV, which the database makes, a few companies or days at a time: proxies and people wait
 * for the beginning of an answer a minute or so. At once the heading.
 * @param sql a transaction of one snapshot
 * @throws DatabaseUnavailable when the reader left; Refused when the rows of the month are away
 */
export async function copyFocus(
  sql: ConnectionSql,
  asked: FocusQuestion,
  write: Write,
): Promise<void> {
  await requireRows(sql, [asked.month]);
  const zone = constant(await zoneOf(sql));
  if (asked.role === 'operator') await leaveCompany(sql); // who is told list prices
  const { names } = queryOf(zone, asked, { ...NONE, companies: [] });
  if (!(await write(Buffer.from(csvHeading(names, PLAIN_CSV))))) return;
  for (const piece of await piecesOf(sql, asked)) {
    const { text } = queryOf(zone, asked, piece);
    await copyOut(sql, `copy (${text}) to stdout with (format csv)`, write);
  }
}
