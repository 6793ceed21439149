const { PATH = '', NODE_COMPILE_CACHE } = process.env;

/** Environment of a program that a test starts: nothing of the test runner's, and what V8 compiled before. */
export const CHILD_ENV: Readonly<Record<string, string>> = {
  PATH,
  ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }),
};
