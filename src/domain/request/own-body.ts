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
  #value: unknown;

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
   * @param reason that says what is missing: the last name may be one that it names and an object of the caller lacks
   */
  member(path: string, reason: string | null): string | null {
    if (!PATH.test(path)) return null;
    const steps = path.match(/[^.[\]'"]+/g) ?? [];
    if (steps[0] === '$' || (steps[0] === 'body' && !this.#has('body')))
      return this.member(steps.slice(1).join('.'), reason);
    const [name = '', index] = steps;
    if (this.#isRun && name === 'model' && steps.length === 1) return this.#has('model_slug') ? 'model_slug' : null;
    if (!this.#has(name)) return null;
    if (name === 'stream_options') return name; // the gateway sets a member of it
    if (!this.#holds(steps, reason)) return null;
    if (!this.#isRun || name !== 'messages' || index === undefined) return path;
    return Number(index) > 0 ? path.replace(/\d+/, `${Number(index) - 1}`) : null;
  }

  #has(name: string): boolean {
    return this.#members.some((member) => member.name === name);
  }

  #holds(steps: readonly string[], reason: string | null): boolean {
    if (steps.length === 1) return true;
    if (this.#sent === null) return steps.slice(1).every((step) => PLAIN.test(step));
    this.#value ??= JSON.parse(Buffer.concat(this.#sent).toString());
    let value = this.#value;
    for (const [n, step] of steps.entries()) {
      if (typeof value !== 'object' || value === null) return false;
      if (!Object.hasOwn(value, step))
        return n > 0 && n === steps.length - 1 && !Array.isArray(value) && reason?.includes(step) === true;
      value = (value as Record<string, unknown>)[step];
    }
    return true;
  }
}
