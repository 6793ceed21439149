import postgres from 'postgres';

/**
 * Runs the handler of the constraint that a statement violated, which throws a RefusedChange. Other
 * errors pass unchanged.
 */
export async function explaining<T>(
  statement: PromiseLike<T>,
  refusals: Readonly<Record<string, () => never>>,
): Promise<T> {
  try {
    return await statement;
  } catch (error) {
    if (error instanceof postgres.PostgresError) refusals[error.constraint_name ?? '']?.();
    throw error;
  }
}
