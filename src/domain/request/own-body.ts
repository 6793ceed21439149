import type { Members } from '../../json/members.ts';

/** The forms in which upstreams name a member: `messages[0].content`, `messages.[1].role`, `messages.0.content`. */
const PATH = /^[\w.[\]'"$-]{1,200}$/;
/** The pattern of a name that is accepted where the body is not kept, so that it cannot be looked up. */
const PLAIN = /^(?:\d{1,6}|[a-z][a-z_]{0,40})$/;

/**
 * The caller's own body. An upstream's error may name a member; the name is relayed only if the caller sent that member,
 * and not if the gateway or a router added it. The body is parsed at the first question, so only for an error.
 */
export class OwnBody {
  readonly #members: Members;
  readonly #sent: readonly Buffer[] | null;
  readonly #isRun: boolean;
  #body: Readonly<Record<string, unknown>> | null = null;

  /**
   * @param members of the caller's body
   * @param sent the body as it went upstream; null: it is not kept, and only the first name of a path is looked up
   * @param isRun whether an assistant's system prompt was put before the messages
   */
  constructor(members: Members, sent: readonly Buffer[] | null, isRun: boolean) {
    this.#members = members;
    this.#sent = sent;
    this.#isRun = isRun;
  }

  /**
   * The member that a path names, with indices as the caller counts them; null: the caller sent no such member.
   * @param reason the upstream's text, if it says that a member is missing: the path may then end in a name that the
   *   caller's object lacks and the text has
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
   * The innermost member on a validator's path that the caller sent, without the steps that name a type; empty: none.
   * @param isMissing whether the path may end in a name that the caller's object lacks
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

  /** `found`: the steps of a path that the body has. `lacks`: the last step, if the body lacks it alone and it is no index. */
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

  /** The path with the caller's index: in a run the first message is the system prompt, which the caller did not send. */
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
