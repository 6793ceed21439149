import { stringify } from 'yaml';
import { pricesAmong, pricesOf } from '../../domain/settings/model.ts';
import { listAssistants } from '../../store/company/assistant.ts';
import { type CompanyRow, listCompanies } from '../../store/company/company.ts';
import { listCostCenterBudgets } from '../../store/company/cost-center.ts';
import { listActiveKeys } from '../../store/company/key.ts';
import { listModels, type ModelRow } from '../../store/company/model.ts';
import { type ListedPrice, listDatedPrices } from '../../store/company/price.ts';
import { comingFactors } from '../../store/company/price-factor.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { listGroups } from '../../store/users/group.ts';
import { listUsers } from '../../store/users/user.ts';
import { pausedIn } from './kinds.ts';
import { CONFIGURATION } from './schema.ts';

type Members = Readonly<
  Record<
    string,
    { readonly properties?: Members; readonly items?: { readonly properties: Members } }
  >
>;
const FILE = CONFIGURATION.properties as unknown as Members;
const COMPANY = FILE.companies?.items?.properties as Members;

/** What is there, as a file that `tollgate apply` reads. It holds no secrets: keys that are missing later need their text. */
export async function exportConfiguration(sql: Sql): Promise<object> {
  const companies = (await listCompanies(sql)).map((row) => ({ ...row, paused: pausedIn(row) }));
  const { prices, costs } = await listDatedPrices(sql);
  const dated = (all: readonly ListedPrice[], model: ModelRow) =>
    all
      .filter(({ slug, company_id }) => slug === model.slug && company_id === model.company_id)
      .map(({ valid_from, ...price }, _, own) => {
        const names = pricesAmong([...own, pricesOf(model)]); // that one has none is told where others have one
        const rates = [...own, model].some((each) => each.rates !== null) && { rates: price.rates };
        return {
          valid_from,
          ...Object.fromEntries(names.map((name) => [name, price[name]])),
          ...rates,
        };
      });
  const rows = (await listModels(sql)).map((row) => ({
    ...row,
    prices: dated(prices, row),
    cost_prices: dated(costs, row),
  }));
  const keys = (await listActiveKeys(sql)).map((row) => ({ ...row, paused: pausedIn(row) }));
  const byHand = (await listUsers(sql, null)).filter(({ oidc_group }) => oidc_group === null);
  const lists = {
    price_factors: ofCompany(await comingFactors(sql), COMPANY.price_factors),
    models: ofCompany(rows, FILE.models),
    users: ofCompany(byHand, FILE.operators),
    oidc_groups: ofCompany(await listGroups(sql, null), FILE.oidc_groups),
    cost_centers: ofCompany(await listCostCenterBudgets(sql, null), COMPANY.cost_centers),
    assistants: ofCompany(await listAssistants(sql, null), COMPANY.assistants),
    keys: ofCompany(keys, COMPANY.keys),
  };
  const { models, users, oidc_groups } = lists;
  const isUnique = withoutNamesakes(companies);
  const entries = companies.map((row) => {
    const { id, ...settings } = pick(row, { items: { properties: COMPANY } }) as CompanyRow;
    const contents = Object.entries(lists).map(([name, of]) => [name, of(row.id)]);
    return { ...(isUnique(row) ? {} : { id }), ...settings, ...Object.fromEntries(contents) };
  });
  return {
    models: models(null),
    companies: entries,
    operators: users(null),
    oidc_groups: oidc_groups(null),
  };
}

/** Whether a name says which row is meant. */
function withoutNamesakes(rows: readonly object[]): (row: object) => boolean {
  const named = Map.groupBy(rows, (row) => (row as { readonly name?: string }).name);
  return (row) => named.get((row as { readonly name?: string }).name)?.length === 1;
}

/** The rows of a company, or of none, as the file has them; with an id where others have the same name. */
function ofCompany<T extends { readonly company_id: string | null }>(
  rows: readonly T[],
  list: Members[string] | undefined,
) {
  const byCompany = Map.groupBy(rows, ({ company_id }) => company_id);
  return (company: string | null): object[] => {
    const rows = byCompany.get(company) ?? [];
    const isUnique = withoutNamesakes(rows);
    return rows.map((row) => {
      const { id, ...told } = pick(row, list) as { readonly id?: string };
      return id === undefined || isUnique(row) ? told : { id, ...told };
    });
  };
}

/** The file's text. */
export function yamlOf(configuration: object): string {
  return stringify(configuration, { lineWidth: 0 });
}

/** The members of a row that the file can hold; those that say nothing are left out. */
function pick(row: object, list: Members[string] | undefined): object {
  const members = Object.keys(list?.items?.properties ?? {});
  const entries = Object.entries(row).filter(
    ([name, value]) => members.includes(name) && !isEmpty(value),
  );
  return Object.fromEntries(
    entries.map(([name, value]) => [name, value instanceof Date ? value.toISOString() : value]),
  );
}

function isEmpty(value: unknown): boolean {
  return value === null || (Array.isArray(value) && value.length === 0);
}
