import type { Section } from '../run/rounds.ts';
import { metering, scanner } from './alone.ts';
import { bodies } from './bodies.ts';
import { distributed } from './distributed.ts';
import { replicas, workers } from './fleet.ts';
import { latency } from './latency.ts';
import { open } from './open.ts';
import { pages } from './pages.ts';
import { pauses } from './pauses.ts';
import { requests } from './requests.ts';
import { idle, start } from './rest.ts';
import { scale } from './scale.ts';
import { burst, paced } from './streams.ts';
import { uploads } from './uploads.ts';

/** The sections of RESULTS.md by the name they have in results.json, in the order of the report. */
export const SECTIONS: Readonly<Record<string, Section>> = {
  requests,
  latency,
  pauses,
  paced,
  burst,
  open,
  bodies,
  uploads,
  metering,
  start,
  idle,
  scale,
  scanner,
};

/** The sections of FLEET.md, which run only when they are named. */
export const FLEET: Readonly<Record<string, Section>> = { replicas, workers, distributed };

/** The section of PAGES.md, which runs only when it is named. */
export const PAGES: Readonly<Record<string, Section>> = { pages };
