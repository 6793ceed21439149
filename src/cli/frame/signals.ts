const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Does something before a signal ends the program, as it does without us. @returns takes it back */
export function beforeSignal(clean: () => void): () => void {
  const takeBack = (): void => {
    for (const each of SIGNALS) process.off(each, end);
  };
  const end = (signal: NodeJS.Signals): void => {
    clean();
    takeBack();
    process.kill(process.pid, signal);
  };
  for (const each of SIGNALS) process.on(each, end);
  return takeBack;
}
