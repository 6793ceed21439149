import { csvHeading, PLAIN_CSV } from '../../domain/documents/csv.ts';
import { COST_PARTS, type CostPart } from '../../domain/money.ts';
import type { Role } from '../../domain/user.ts';
import { dayBegins, utcSecond } from '../connection/expressions.ts';
import type { ConnectionSql, Sql } from '../connection/pool.ts';
import { CHARGED } from '../statement/cost.ts';
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
}

const METERS: Readonly<Record<CostPart, string>> = {
  input: 'Input',
  cache_read: 'Cache Read',
  cache_write: 'Cache Write',
  output: 'Output',
};

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
    ChargeDescription: `model_slug || ', ' || replace(part, '_', ' ') || ' tokens' || case when late then ', late call of ' || to_char(billing_month, 'YYYY-MM') else '' end`,
    ConsumedQuantity: exact('tokens'),
    ConsumedUnit: "'Tokens'",
    PricingQuantity: exact('tokens * 0.001'),
    PricingUnit: "'1000 Tokens'",
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
    SkuId: "model_slug || ':' || part",
    SkuPriceId: `model_slug || ':' || part || coalesce('@' || ${utcSecond('valid_from')}, '')`,
    SkuMeter: `case part ${COST_PARTS.map((part) => `when '${part}' then '${METERS[part]}'`).join(' ')} end`,
    SkuPriceDetails:
      "json_strip_nulls(json_build_object('x_Model', model_slug, 'x_Part', part))::text",
    Tags: withoutFormula(
      `json_strip_nulls(json_build_object('cost_center', nullif(cost_center, ''), 'key', key_name, 'endpoint', endpoint))::text`,
    ),
  };
}

/**
 * The query of a month: a row for each day, model, key, cost centre, endpoint, part of the cost and unit price. BilledCost adds
 * up to the statements of the month, or to what they would be now: late calls of earlier months are rows of their own, and
 * late calls of this one are on a later statement. The list price is that before the company's factor: what was charged
 * divided by the factor, unless the list of that instant says so itself.
 */
async function queryOf(sql: Sql, { brand, company, month: first, role }: FocusQuestion) {
  const zone = constant(await zoneOf(sql));
  const month = `${constant(first)}::date`;
  const [issuer, provider] = [constant(brand.seller?.[0] ?? brand.name), constant(brand.name)];
  const told = columns({
    zone,
    month,
    issuer,
    provider,
    list: role === 'operator' ? 'list' : 'price',
  });
  const own = (of: string) =>
    company === null ? '' : ` and ${of}company_id = ${constant(company)}`;
  const waiting =
    company === null
      ? `company_id <> all (array(select company_id from closed)) and (company_id = any (array(
          select company_id from monthly_spend where billing_month = ${month} and statement is null and requests > 0))
        or (billing_month < ${month} and company_id <> all (array(select company_id from statements where billing_month >= ${month}))))`
      : `company_id = ${constant(company)} and not exists (select from closed)`;
  const cells = `u.company_id, u.billing_month, (u.occurred_at at time zone ${zone})::date as day, u.model_slug, u.api_key_id,
    u.cost_center, u.endpoint, u.price_input, u.price_output, u.price_cache_read, u.price_cache_write`;
  const sums = `min(u.occurred_at) as at, ${COST_PARTS.map((part) => `sum(${CHARGED[part][0]}) as ${part}`).join(', ')}`;
  const parts = COST_PARTS.map((part, at) => `(${at}, '${part}', ${part}, price_${part})`).join(
    ', ',
  );
  const priced = 'company_id, model_slug, day, place, part, price';
  const text = `with
    closed as materialized (select company_id, number from statements where billing_month = ${month}${own('')}),
    elsewhere as materialized (
      select company_id, request_id from late_usage where billing_month = ${month}${own('')}
      union all
      select r.company_id, unnest(r.request_ids) from statement_rows r join statements s using (company_id, number)
      where r.billing_month = ${month} and s.billing_month <> ${month}${own('r.')}),
    taken as materialized (
      select r.company_id, r.billing_month, unnest(r.request_ids) as request_id from statement_rows r join closed using (company_id, number)
      where r.billing_month <> ${month}
      union all
      select company_id, billing_month, request_id from late_usage where ${waiting}),
    timely as materialized (
      select ${cells}, false as late, ${sums} from api_usage u where u.billing_month = ${month}${own('u.')}
        and not exists (select from elsewhere e where e.company_id = u.company_id and e.request_id = u.request_id)
      group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
    late_ones as materialized (
      select ${cells}, true as late, ${sums} from taken t join api_usage u
        on u.company_id = t.company_id and u.billing_month = t.billing_month and u.request_id = t.request_id
      group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
    cells as (select * from timely union all select * from late_ones),
    sold as materialized (
      select company_id, billing_month, day, late, model_slug, api_key_id, cost_center, endpoint, place, part, price,
        sum(tokens) as tokens, min(at) as at
      from cells, lateral (values ${parts}) as p (place, part, tokens, price) where tokens > 0
      group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
    prices as materialized (
      select ${priced}, p.valid_from, case
        when p.list * f.factor = price or p.list * g.factor = price then p.list
        when round(price / f.factor, 12) * f.factor = price then round(price / f.factor, 12) else price end as list
      from (select ${priced}, min(at) as at from sold group by ${priced}) as each
      cross join lateral price_factor(company_id, at) f
      left join lateral price_factor(company_id, f.valid_from - interval '1 microsecond') g on f.valid_from is not null
      left join lateral (
        select l.valid_from, case part ${COST_PARTS.map((part) => `when '${part}' then l.${part}`).join(' ')} end as list
        from list_price(model_slug, each.company_id, at) l) p on true),
    charges as (
      select sold.*, list, valid_from, closed.number, c.name as company_name, k.name as key_name
      from sold join prices using (${priced}) left join closed using (company_id)
      left join companies c on c.id = company_id left join api_keys k on k.id = api_key_id)
    select ${Object.entries(told)
      .map(([name, column]) => `${column} as "${name}"`)
      .join(', ')}
    from (select * from charges
      order by company_name, company_id, late, day, model_slug collate "C", api_key_id, cost_center collate "C", endpoint, place, price) as charges`;
  return { text, names: Object.keys(told) };
}

/** A row by its columns; what is null has no value. */
type FocusRow = Readonly<Record<keyof ReturnType<typeof columns>, string | null>>;

/** The charges of a month in batches, so that it takes the memory of one. */
export async function* readFocus(
  sql: Sql,
  asked: FocusQuestion,
  batch = 1000,
): AsyncGenerator<readonly FocusRow[]> {
  yield* sql.unsafe<FocusRow[]>((await queryOf(sql, asked)).text).cursor(batch);
}

/**
 * Writes the charges of a month as CSV, one snapshot, which the database makes; at once the heading, because proxies wait for
 * the beginning of an answer a minute or so.
 * @throws DatabaseUnavailable when the reader left
 */
export async function copyFocus(
  sql: ConnectionSql,
  asked: FocusQuestion,
  write: Write,
): Promise<void> {
  const { text, names } = await queryOf(sql, asked);
  if (await write(Buffer.from(csvHeading(names, PLAIN_CSV))))
    await copyOut(sql, `copy (${text}) to stdout with (format csv)`, write);
}
