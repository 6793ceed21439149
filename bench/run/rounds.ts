import { setTimeout as sleep } from 'node:timers/promises';
import { type Figures, record, type SectionResults, type Series } from '../results.ts';
import { number } from '../tables.ts';
import type { DatabaseServer } from './database.ts';
import type { Rig } from './rig.ts';
import {
  NOTHING,
  type Surroundings,
  startTarget,
  type Target,
  type TargetName,
} from './targets.ts';

/** What a section needs to run. */
export interface Bench extends Surroundings {
  readonly rounds: number;
  readonly seconds: number;
  readonly rig: Rig;
  readonly server: DatabaseServer;
  /** Names of the targets to measure, where a section compares targets. */
  readonly targets: readonly TargetName[];
  /** Size of the database in the scale section. */
  readonly ledgerRows: number;
  readonly companies: number;
  say(text: string): void;
}

/** One section of the benchmark: what is started, what is sent and measured, and which rows of the report it gives. */
export interface Section {
  readonly heading: string;
  /** NOTHING, if absent. */
  start?(bench: Bench): Promise<Target[]>;
  steps(bench: Bench): readonly Step[];
  /** The seconds of each round are others than --seconds; the note tells them. */
  readonly ownTime?: boolean;
  /** Circumstances that a reader needs. */
  note(bench: Bench): string;
  /** Tables and what is said beneath them. */
  table(results: SectionResults): string[];
  /** Rows of the table of targets. */
  goals?(results: SectionResults | undefined): string[][];
}

/** Something measured in rounds. */
export interface Step {
  readonly name: string;
  /** Seconds of the warm-up, the round before the first; none if absent. */
  readonly warmSeconds?: number;
  /** Starts the targets anew for each round. */
  readonly fresh?: boolean;
  /**
   * Measures one target.
   * @param warmsUp the figures will not count
   * @returns figures by series; `cpu` is in microseconds per unit of work
   */
  measure(
    target: Target,
    seconds: number,
    warmsUp: boolean,
  ): Promise<Readonly<Record<string, Figures>>>;
}

/** V8 goes on optimising a gateway for some 50,000 requests. */
export const WARM_SECONDS = 6;

/** Starts those of the named targets that are wanted and installed. */
export async function startTargets(bench: Bench, names: readonly TargetName[]): Promise<Target[]> {
  const targets: Target[] = [];
  for (const name of names.filter((name) => bench.targets.includes(name))) {
    const target = await startTarget(name, bench);
    if (typeof target === 'string') bench.say(`${name} is left out: ${target}`);
    else targets.push(target);
  }
  return targets;
}

/**
 * Runs a section. In each round all targets are measured one after the other, beginning with another one each time;
 * so whatever happens to the machine meanwhile happens to all of them.
 */
export async function runSection(
  { start = async () => [NOTHING], steps }: Section,
  bench: Bench,
): Promise<Series> {
  const series: Series = {};
  let targets = await start(bench);
  try {
    for (const step of steps(bench)) {
      const warmSeconds = bench.quick ? 0 : (step.warmSeconds ?? 0);
      for (let round = warmSeconds > 0 ? 0 : 1; round <= bench.rounds; round++) {
        if (step.fresh) {
          await stopAll(targets);
          targets = await start(bench);
        }
        const shown: string[] = [];
        for (let i = 0; i < targets.length; i++) {
          const target = targets[(i + round) % targets.length] as Target;
          const measured = await step
            .measure(target, round === 0 ? warmSeconds : bench.seconds, round === 0)
            .catch((cause) => {
              throw new Error(`${step.name} through ${target.name} failed`, { cause });
            });
          for (const [name, figures] of Object.entries(measured)) {
            if (round > 0) record(series, name, target.name, figures);
            const [[kind, figure] = ['', 0]] = Object.entries(figures);
            shown.push(`${target.name} ${kind} ${number(figure)}`);
          }
          target.tidy();
          await sleep(100);
        }
        bench.say(
          `${step.name}, ${round === 0 ? 'warm-up' : `round ${round} of ${bench.rounds}`}: ${shown.join(', ')}`,
        );
      }
    }
  } finally {
    await stopAll(targets);
  }
  return series;
}

async function stopAll(targets: readonly Target[]): Promise<void> {
  for (const target of targets) await target.stop();
}
