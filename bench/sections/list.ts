import type { Section } from '../run/rounds.ts';
import { bodies } from './bodies.ts';
import { burst } from './burst.ts';
import { conversation } from './conversation.ts';
import { counts } from './counts.ts';
import { distributed } from './distributed.ts';
import { felt } from './felt.ts';
import { idle } from './idle.ts';
import { kept } from './kept.ts';
import { latency } from './latency.ts';
import { many } from './many.ts';
import { metering } from './metering.ts';
import { open } from './open.ts';
import { paced } from './paced.ts';
import { pages } from './pages.ts';
import { pauses } from './pauses.ts';
import { replicas } from './replicas.ts';
import { requests } from './requests.ts';
import { rows } from './rows.ts';
import { scale } from './scale.ts';
import { scanner } from './scanner.ts';
import { start } from './start.ts';
import { uploads } from './uploads.ts';
import { workers } from './workers.ts';

/** The sections of RESULTS.md by the name they have in results.json, in the order of the report. */
export const SECTIONS: Readonly<
  Record<'requests' | 'conversation', Section> & Record<string, Section>
> = {
  requests,
  conversation,
  rows,
  latency,
  pauses,
  felt,
  paced,
  burst,
  counts,
  open,
  many,
  bodies,
  uploads,
  metering,
  start,
  idle,
  scale,
  scanner,
};

/** The sections of FLEET.md, which run only when they are named. */
export const FLEET: Readonly<Record<string, Section>> = { replicas, workers, kept, distributed };

/** The section of PAGES.md, which runs only when it is named. */
export const PAGES: Readonly<Record<string, Section>> = { pages };
