import type { Members } from '../../json/members.ts';

/** The forms in which upstreams name a member: `messages[0].content`, `messages.[1].role`, `messages.0.content`. */
const PATH = /^[\w.[\]'"$-]{1,200}$/;
/** The least that a name has to look like where it cannot be looked up. */
const PLAIN = /^(?:\d{1,6}|[a-z][a-z_]{0,40})$/;

/**
 * The caller's own body, by which a name of a member that the upstream tells is checked: names of members that the gateway
 * or a router added are not relayed. Parsed when it is asked for the first time, for an error alone.
 */
export class OwnBody {
  readonly #members: Members;
  readonly #sent: readonly Buffer[] | null;
  readonly #isRun: boolean;
  #body: Readonly<Record<string, unknown>> | null = null;

  /**
   * @param members of the caller's body
   * @param sent what went upstream; null: it is not kept, then only the first name of a path is looked up
   * @param isRun whether an assistant's system prompt was put before the messages
   */
  constructor(members: Members, sent: readonly Buffer[] | null, isRun: boolean) {
    this.#members = members;
    this.#sent = sent;
    this.#isRun = isRun;
  }

  /**
   * The member that a path names, as the caller counts; null where it is none of the caller's.
   * @param reason the upstream's text, where it says that a member is missing: the last name of the path may then be a
   *   member that the text names and the caller's object lacks
   */
  member(path: string, reason: string | null): string | null {
    const [name = '', ...steps] = stepsOf(path);
    if (this.#isRun && name === 'model' && steps.length === 0)
      return this.#has('model_slug') ? 'model_slug' : null;
    if (!this.#has(name)) return null;
    if (name === 'stream_options') return name; // the gateway sets a member of it
    const { found, lacks } = this.#walk(name, steps);
    const isWhole =
      found.length === steps.length || (lacks !== null && reason?.includes(lacks) === true);
    return isWhole ? this.#counted(name, steps[0], path) : null;
  }

  /**
   * The innermost member of the caller's that a path of a validator names, without steps that name a type; empty: none.
   * @param isMissing whether its last name may be one that an object of the caller lacks
   */
  nearest(path: string, isMissing: boolean): string {
    const [name = '', ...steps] = stepsOf(path);
    if (!this.#has(name)) return '';
    const { found, lacks } = this.#walk(name, steps);
    return (
      this.#counted(
        name,
        found[0],
        [name, ...found, ...(isMissing && lacks !== null ? [lacks] : [])].join('.'),
      ) ?? ''
    );
  }

  #has(name: string): boolean {
    return this.#members.some((member) => member.name === name);
  }

  /** The steps that the body has, others left out. `lacks`: the last step, if that is the only one and no place in a list. */
  #walk(
    name: string,
    steps: readonly string[],
  ): { found: readonly string[]; lacks: string | null } {
    if (steps.length === 0) return { found: steps, lacks: null };
    if (this.#sent === null)
      return { found: steps.every((step) => PLAIN.test(step)) ? steps : [], lacks: null };
    this.#body ??= JSON.parse(Buffer.concat(this.#sent).toString()) as Record<string, unknown>;
    let value = this.#body[name];
    const found: string[] = [];
    for (const step of steps) {
      if (
        typeof value !== 'object' ||
        value === null ||
        !Object.prototype.propertyIsEnumerable.call(value, step)
      )
        continue;
      found.push(step);
      value = (value as Record<string, unknown>)[step];
    }
    const isLast = found.length === steps.length - 1 && found.every((step, n) => step === steps[n]);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return { found, lacks: isLast && isObject ? (steps.at(-1) as string) : null };
  }

  /** In a run the system prompt comes first, and is not the caller's. */
  #counted(name: string, index: string | undefined, path: string): string | null {
    if (!this.#isRun || name !== 'messages' || index === undefined) return path;
    return Number(index) > 0 ? path.replace(/\d+/, `${Number(index) - 1}`) : null;
  }
}

/** The names and places in a path, without `$` and `body` before them; none where it is no path. */
function stepsOf(path: string): readonly string[] {
  const steps = PATH.test(path) ? (path.match(/[^.[\]'"]+/g) ?? []) : [];
  return steps.length > 1 && (steps[0] === '$' || steps[0] === 'body') ? steps.slice(1) : steps;
}
