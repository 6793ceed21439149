/** A client of the gateway that others wrote, and how it is tried. */
export interface Client {
  readonly name: string;
  readonly from: 'npm' | 'pip';
  /** The first is the client: its version is shown. */
  readonly packages: readonly string[];
  /** Further options of the installer. */
  readonly options?: readonly string[];
  /** What is asked of it, as a phrase. */
  readonly asked: string;
  start(setting: Setting): Start;
}

/** What a client is tried with. */
export interface Setting {
  /** Its packages are installed here; it runs in `work` in it, beside `note.txt`. */
  readonly folder: string;
  /** Base address of the gateway, ending in `/v1`. */
  readonly url: string;
  readonly key: string;
  /** What it has to print; it stands in `note.txt`. */
  readonly word: string;
}

export interface Start {
  readonly command: readonly string[];
  /** Text of files to write before, by their path in the folder. */
  readonly files?: Readonly<Record<string, string>>;
  /** Environment besides PATH, HOME (the folder), TOLLGATE_URL, TOLLGATE_KEY and WORD. */
  readonly env?: Readonly<Record<string, string>>;
}

/** How a program ended and what it printed. */
export interface Ran {
  readonly failed: boolean;
  readonly out: string;
  readonly err: string;
}
