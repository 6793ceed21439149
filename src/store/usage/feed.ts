import type { Database, Sql } from '../connection/pool.ts';
import { type FedRow, readFed } from './export.ts';

/** A call of the feed: its ledger row, and the cursor behind it. */
export type FedCall = FedRow & { readonly cursor: string };

/** The form of a cursor: where a call stands in the feed (sql/schema/feed.sql), and the beginning of its id, by which a cursor of another ledger is found out. */
export const FEED_CURSOR = /^(\d{1,18})-(\d{1,18})-(\d{1,9})-([0-9a-f]{8})$/;
/** Continues the name of an argument or parameter that `isFeedCursor` refuses. */
export const OTHER_LEDGER =
  'is of another ledger, or of one that was restored to an earlier time: begin without a cursor. A call keeps its request_id';
/** The most calls that are read at once. */
export const FEED_PAGE = 1000;
const PAGE_MS = 60_000;

interface FeedPlace {
  readonly feed_position: string;
  readonly number: string;
  readonly place: string;
}
type FeedEntry = FeedPlace & { readonly billing_month: string; readonly request_id: string };

const BEGINNING: FeedPlace = { feed_position: '0', number: '0', place: '0' };

/** Whether a cursor is one of this ledger. One is not where the database was restored to an earlier time. */
export async function isFeedCursor(sql: Sql, cursor: string): Promise<boolean> {
  const [, position = '0', number = '0', place = '0', beginning] = FEED_CURSOR.exec(cursor) ?? [];
  const [found] = await sql<{ id: string | null }[]>`
    select coalesce(f.request_ids[${place}::integer], (
      select s.request_ids[${place}::integer] from ledger_seals s
      where s.writer = f.writer and s.number = ${number}::bigint and s.number between f.first_number and f.last_number))::text as id
    from ledger_feed f where f.position = ${position}::bigint`;
  return beginning !== undefined && found?.id?.startsWith(beginning) === true;
}

/**
 * The calls of all companies, each once, in the order of the feed. A page is a transaction of its own, so this takes the
 * memory of one page. Ends with the last call that is booked.
 * @param after the cursor of the last call that was read, for which `isFeedCursor` holds; null: from the first one
 * @param limit how many at most
 */
export async function* readFeed(
  db: Database,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): AsyncGenerator<readonly FedCall[]> {
  const [, feed_position, number, place] = FEED_CURSOR.exec(after ?? '') ?? [];
  let last =
    feed_position === undefined ? BEGINNING : ({ feed_position, number, place } as FeedPlace);
  for (let room = limit; room > 0; ) {
    const size = Math.min(room, FEED_PAGE);
    const { calls, rows } = await db.transaction(PAGE_MS, (sql) => readPage(sql, last, size));
    yield rows;
    if (calls.length < size) return;
    last = calls.at(-1) as FeedEntry;
    room -= rows.length; // fewer than calls where a month was taken away
  }
}

async function readPage(sql: Sql, { feed_position, number, place }: FeedPlace, size: number) {
  const calls = await sql<FeedEntry[]>`
    select feed_position::text, number::text, place::text, to_char(billing_month, 'YYYY-MM-DD') as billing_month, request_id::text
    from feed_calls(${feed_position}, ${number}, ${place}, ${size})`;
  const months = [...new Set(calls.map(({ billing_month }) => billing_month))];
  const found = await readFed(
    sql,
    months,
    calls.map(({ request_id }) => request_id),
  );
  const byId = new Map(found.map((row) => [row.billing_month + row.request_id, row]));
  const rows = calls.flatMap((call): FedCall[] => {
    const row = byId.get(call.billing_month + call.request_id);
    return row === undefined ? [] : [{ cursor: cursorOf(call), ...row }];
  });
  return { calls, rows };
}

function cursorOf({ feed_position, number, place, request_id }: FeedEntry): string {
  return `${feed_position}-${number}-${place}-${request_id.slice(0, 8)}`;
}
