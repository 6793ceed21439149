import { basename } from 'node:path';
import { reasonOf } from '../log.ts';
import type { Processes, ProcessIdentity } from '../runtime/processes.ts';
import type { Disk, SpoolFile } from './disk.ts';

export interface SpoolOptions {
  readonly disk: Disk;
  readonly processes: Processes;
  /** The folder all gateways share. */
  readonly folder: string;
  /** Unique among all processes that ever used the folder. */
  readonly id: string;
  /** Monotonic milliseconds. */
  readonly uptime: () => number;
  readonly log: {
    warn(fields: object, text: string): void;
    error(fields: object, text: string): void;
  };
}

export const BEAT_MS = 5_000; // how often a process touches its owner file
const SILENCE_MS = 30_000; // after which a process that cannot be looked up counts as dead
const OWNER = 'owner.json';
const SUFFIX = '.spool';
/** Bytes of an owner file, filled with spaces. On a full disk a process that starts takes them for a folder of its own. */
const RESERVE = 16_384;
const FULL = ['ENOSPC', 'EDQUOT'];
/** A process id that no system gives: what such a process left may be taken over at once. */
const NOBODY = 0x7fff_ffff;

/**
 * The folder of spool files. Each process has a folder of its own below it. What a dead process left is adopted:
 * its folder is renamed into ours, in which only one adopter succeeds. The process table shows who is dead; for
 * processes elsewhere (containers, network folders) an owner file not touched for 30 s does.
 *
 *   spool/
 *     5c0e…/owner.json          which process this is; touched every 5 s
 *           00000001.spool      records not yet in the database
 *     91fa…/…                   another gateway's, perhaps a dead one's
 */
export class Spool {
  readonly #options: SpoolOptions;
  /** Names of the folders that were taken over, until a beat has told of them (store/gateway/gateways.ts). */
  readonly adopted = new Set<string>();
  #id: string;
  #files = 0;
  /** How often another gateway took this one for dead. */
  #evictions = 0;
  #beatAt: number;
  /** Owner files of processes that cannot be looked up: their time, and since when it has not changed. */
  #silent = new Map<string, { time: number | null; since: number }>();
  /** Names of folders of which the log said that they cannot be taken over. */
  readonly #told = new Set<string>();

  /** @throws Error when the folder cannot be written */
  constructor(options: SpoolOptions) {
    this.#options = options;
    this.#id = options.id;
    this.#makeFolder(options.id);
    this.#beatAt = options.uptime();
  }

  get #own(): string {
    return `${this.#options.folder}/${this.#id}`;
  }

  /** A new file to append to. @throws when the disk refuses, or another gateway has the folder */
  newFile(): { path: string; file: SpoolFile } {
    this.check();
    const path = this.#nextPath();
    return { path, file: this.#options.disk.open(path) };
  }

  /** @throws where this process was suspended and another gateway has the folder; the next beat makes a new one */
  check(): void {
    if (this.#options.uptime() - this.#beatAt <= 2 * BEAT_MS || this.#touch()) return;
    throw new Error('the folder is gone');
  }

  /**
   * Shows that this process is alive; to be called every BEAT_MS.
   * @returns false when another gateway took it for dead and has adopted its files
   * @throws when the disk refuses
   */
  beat(): boolean {
    const { log, uptime } = this.#options;
    this.#beatAt = uptime();
    if (this.#touch()) return true;
    const id = `${this.#options.id}-${this.#evictions + 1}`;
    this.#makeFolder(id); // where the disk refuses, the next beat tries again
    this.#id = id;
    this.#evictions += 1;
    const text =
      'spool: the folder is gone: another gateway took this one for dead and has its records, or it was removed';
    log.error({}, `${text}; going on in a new folder`);
    return false;
  }

  /**
   * Takes over the files of processes that are gone. What the disk refuses of it is tried again the next time.
   * @returns their paths, oldest first; @throws when the folder cannot be read
   */
  adopt(): string[] {
    const { disk, folder, log } = this.#options;
    const moved: string[] = [];
    const attempt = (name: string, work: () => void): void => {
      try {
        work();
      } catch (error) {
        const isGone = (error as NodeJS.ErrnoException).code === 'ENOENT'; // another gateway was faster
        if (isGone || this.#told.has(name)) return;
        this.#told.add(name);
        log.error(
          { folder: name, reason: reasonOf(error) },
          'spool: a folder cannot be looked into or taken over',
        );
      }
    };
    // folders in our own are those of which only a part could be moved
    const begun = disk.list(this.#own).filter((name) => name !== OWNER && !isSpoolFile(name));
    const others = disk.list(folder).filter((name) => name !== this.#id);
    for (const name of begun) attempt(name, () => this.#moveIn(`${this.#own}/${name}`, moved));
    for (const name of others) {
      attempt(name, () => {
        if (!this.#isDead(name)) return;
        disk.rename(`${folder}/${name}`, `${this.#own}/${name}`);
        this.#silent.delete(name);
        this.#moveIn(`${this.#own}/${name}`, moved);
      });
    }
    return moved;
  }

  discard(path: string): void {
    this.#options.disk.remove(path);
  }

  read(path: string): Buffer {
    return this.#options.disk.read(path);
  }

  /** Removes the folder of this process if it is empty. Otherwise others may take it over at once. */
  close(): void {
    const { disk, processes } = this.#options;
    const owner = `${this.#own}/${OWNER}`;
    disk.remove(owner); // where nothing more succeeds, its silence shows that it is dead
    if (disk.list(this.#own).length === 0) disk.removeFolder(this.#own);
    else
      disk.write(owner, ownerText({ ...processes.self, pid: NOBODY, started: '' }).padEnd(RESERVE));
  }

  /** Where the next file goes. */
  #nextPath(): string {
    this.#files += 1;
    return `${this.#own}/${String(this.#files).padStart(8, '0')}${SUFFIX}`;
  }

  #touch(): boolean {
    return this.#options.disk.touch(`${this.#own}/${OWNER}`);
  }

  #makeFolder(id: string): void {
    const { disk, processes, folder } = this.#options;
    const owner = ownerText(processes.self);
    const make = (text: string): void => {
      disk.makeFolder(`${folder}/${id}`);
      disk.write(`${folder}/${id}/${OWNER}`, text);
    };
    try {
      make(owner.padEnd(RESERVE));
    } catch (error) {
      if (!FULL.includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
      this.#freeReserves();
      make(owner);
    }
  }

  /** Shortens the owner files: records that fill the disk are booked only by a process that can start. */
  #freeReserves(): void {
    const { disk, folder } = this.#options;
    for (const path of disk.list(folder).map((name) => `${folder}/${name}/${OWNER}`)) {
      if (disk.time(path) === null) continue;
      const owner = disk.read(path).toString().trimEnd();
      const file = disk.open(path);
      file.truncate(Buffer.byteLength(owner));
      file.close();
    }
  }

  #isDead(name: string): boolean {
    const { disk, processes, folder, uptime } = this.#options;
    const path = `${folder}/${name}/${OWNER}`;
    const time = disk.time(path);
    // no owner file yet, or not a spool folder
    if (time === null && !disk.list(`${folder}/${name}`).some(isSpoolFile)) return false;
    const alive = this.#isAlive(path, processes);
    if (alive !== null) return !alive;
    const known = this.#silent.get(name);
    if (known === undefined || known.time !== time) {
      this.#silent.set(name, { time, since: uptime() });
      return false;
    }
    return uptime() - known.since >= SILENCE_MS;
  }

  #isAlive(path: string, processes: Processes): boolean | null {
    try {
      return processes.isAlive(
        JSON.parse(this.#options.disk.read(path).toString()) as ProcessIdentity,
      );
    } catch {
      return null; // missing, being written, or damaged: its time decides
    }
  }

  /** Moves the spool files of an adopted folder, and of those it had adopted, next to our own. */
  #moveIn(folder: string, moved: string[]): void {
    const { disk } = this.#options;
    const names = disk.list(folder);
    for (const name of names.filter(isSpoolFile)) {
      const target = this.#nextPath();
      disk.rename(`${folder}/${name}`, target);
      moved.push(target);
    }
    for (const name of names)
      if (name !== OWNER && !isSpoolFile(name)) this.#moveIn(`${folder}/${name}`, moved);
    disk.remove(`${folder}/${OWNER}`);
    disk.removeFolder(folder);
    this.adopted.add(basename(folder));
  }
}

function ownerText(owner: ProcessIdentity): string {
  return `${JSON.stringify(owner)}\n`;
}

/** Earlier versions put files that could not be read aside, for good, under a name of their own. */
function isSpoolFile(name: string): boolean {
  return name.endsWith(SUFFIX) || name.endsWith(`${SUFFIX}.unreadable`);
}
