import postgres from 'postgres';

/**
 * Answers a broken constraint in words: runs the handler named after the constraint a
 * statement violated (it throws the RefusedChange), and leaves every other error as it is.
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
