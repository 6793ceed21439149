import type { Disk, Processes, ProcessName, SpoolFile } from './disk.ts';

export interface SpoolOptions {
  readonly disk: Disk;
  readonly processes: Processes;
  /** Shared by any number of gateways. */
  readonly folder: string;
  /** Names this process among all that ever used the folder. */
  readonly id: string;
  /** Milliseconds that no clock change moves. */
  readonly uptime: () => number;
  readonly log: { warn(fields: object, text: string): void; error(fields: object, text: string): void };
}

export const BEAT_MS = 5_000; // how often a process shows that it lives
const SILENCE_MS = 30_000; // after which one that cannot be looked up is taken for dead
const OWNER = 'owner.json';
const SUFFIX = '.spool';

/**
 * The folder of spool files. Each process has one of its own below it, so no two ever write
 * to one file:
 *
 *   spool/
 *     5c0e…/owner.json          which process this is; touched every 5 s
 *           00000001.spool      records not yet in the database
 *     91fa…/…                   another gateway's, or what one left behind that died
 *
 * What a dead process left is adopted: its folder is renamed into ours, which only one of
 * several adopters can do. On the same machine the process table tells who is dead, at once;
 * elsewhere (containers, network folders) an owner file that nobody touched for 30 s does.
 */
export class Spool {
  readonly #options: SpoolOptions;
  #id: string;
  #files = 0;
  #lives = 0;
  #beatAt: number;
  /** Owner files of processes that cannot be looked up: their last time, and since when it stands still. */
  #silent = new Map<string, { time: number; since: number }>();

  /** @throws Error when the folder cannot be written */
  constructor(options: SpoolOptions) {
    this.#options = options;
    this.#id = options.id;
    this.#settle();
    this.#beatAt = options.uptime();
  }

  get #own(): string {
    return `${this.#options.folder}/${this.#id}`;
  }

  /** A new file to append to. @throws when the disk refuses */
  newFile(): { path: string; file: SpoolFile } {
    if (this.#options.uptime() - this.#beatAt > 2 * BEAT_MS) this.beat(); // we were suspended: is it still ours?
    this.#files += 1;
    const path = `${this.#own}/${String(this.#files).padStart(8, '0')}${SUFFIX}`;
    return { path, file: this.#options.disk.open(path) };
  }

  /**
   * Shows that this process lives; to be called every BEAT_MS.
   * @returns false when another gateway took it for dead and has adopted its files
   */
  beat(): boolean {
    const { disk, log, uptime } = this.#options;
    this.#beatAt = uptime();
    if (disk.touch(`${this.#own}/${OWNER}`)) return true;
    log.error({}, 'spool: another gateway took this one for dead and has its records; going on in a new folder');
    this.#lives += 1;
    this.#id = `${this.#options.id}-${this.#lives}`;
    this.#settle();
    return false;
  }

  /** Takes over the files of processes that are gone. @returns their paths, oldest first */
  adopt(): string[] {
    const { disk, folder } = this.#options;
    const adopted: string[] = [];
    for (const name of disk.list(folder)) {
      if (name === this.#id || !this.#isDead(name)) continue;
      try {
        disk.rename(`${folder}/${name}`, `${this.#own}/${name}`);
      } catch {
        continue; // somebody else was faster
      }
      this.#silent.delete(name);
      adopted.push(...this.#moveIn(`${this.#own}/${name}`));
    }
    return adopted;
  }

  discard(path: string): void {
    this.#options.disk.remove(path);
  }

  read(path: string): Buffer {
    return this.#options.disk.read(path);
  }

  /** Keeps a file nobody can read, out of the way. */
  putAside(path: string): void {
    this.#options.disk.rename(path, `${path}.unreadable`);
  }

  /** Removes the folder of this process if nothing is left in it. */
  close(): void {
    const { disk } = this.#options;
    const left = disk.list(this.#own).filter((name) => name !== OWNER);
    if (left.length > 0) return;
    disk.remove(`${this.#own}/${OWNER}`);
    disk.removeFolder(this.#own);
  }

  #settle(): void {
    const { disk, processes } = this.#options;
    disk.makeFolder(this.#own);
    disk.write(`${this.#own}/${OWNER}`, `${JSON.stringify(processes.self)}\n`);
  }

  #isDead(name: string): boolean {
    const { disk, processes, folder, uptime } = this.#options;
    const path = `${folder}/${name}/${OWNER}`;
    const time = disk.time(path);
    if (time === null) {
      // no owner yet, or no folder of ours at all
      if (!disk.list(`${folder}/${name}`).some((file) => file.endsWith(SUFFIX))) return false;
    } else {
      const alive = this.#lookUp(path, processes);
      if (alive !== null) return !alive;
    }
    const known = this.#silent.get(name);
    if (known === undefined || known.time !== (time ?? 0)) {
      this.#silent.set(name, { time: time ?? 0, since: uptime() });
      return false;
    }
    return uptime() - known.since >= SILENCE_MS;
  }

  #lookUp(path: string, processes: Processes): boolean | null {
    try {
      return processes.isAlive(JSON.parse(this.#options.disk.read(path).toString()) as ProcessName);
    } catch {
      return null; // being written, or damaged: its time tells
    }
  }

  /** Moves the spool files of an adopted folder, and of those it had adopted, next to our own. */
  #moveIn(folder: string): string[] {
    const { disk } = this.#options;
    const moved: string[] = [];
    for (const name of disk.list(folder)) {
      const path = `${folder}/${name}`;
      if (name === OWNER) disk.remove(path);
      else if (name.endsWith(SUFFIX)) {
        this.#files += 1;
        const place = `${this.#own}/${String(this.#files).padStart(8, '0')}${SUFFIX}`;
        disk.rename(path, place);
        moved.push(place);
      } else if (name.endsWith('.unreadable')) {
        disk.rename(path, `${this.#own}/${this.#files}-${name}`);
      } else {
        moved.push(...this.#moveIn(path));
      }
    }
    disk.removeFolder(folder);
    return moved;
  }
}
