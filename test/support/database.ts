import type { Database } from '../../src/store/connection/pool.ts';

/** A database with some of its methods replaced. */
export function replacing(db: Database, methods: Partial<Database>): Database {
  return {
    run: (deadlineMs, work) => db.run(deadlineMs, work),
    transaction: (deadlineMs, work) => db.transaction(deadlineMs, work),
    listen: (channel, handlers) => db.listen(channel, handlers),
    close: () => db.close(),
    ...methods,
  };
}

/** The same database where LISTEN is never heard, as behind a transaction pooler. */
export function deaf(db: Database): Database {
  return replacing(db, { listen: () => ({ close() {} }) });
}
