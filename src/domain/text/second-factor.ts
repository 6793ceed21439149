/** The e-mails that tell a person what happened to the own second factor. */

export type FactorNotice =
  | { readonly kind: 'on' | 'off' | 'reset' | 'codes' }
  /** A recovery code was used; so many are left. */
  | { readonly kind: 'recovery'; readonly left: number }
  /** So many wrong codes in a row: none is taken for a while. */
  | { readonly kind: 'closed'; readonly wrong: number };

const YOURS = 'If it was not you, change your password and tell the operator of this service.';

/** Subject and text. @param at when it happened, in words */
export function factorMail(notice: FactorNotice, at: string): { readonly subject: string; readonly text: string } {
  const [subject, ...lines] = linesOf(notice);
  return { subject: `[Tollgate] ${subject}`, text: `${[...lines, '', `Time: ${at}`].join('\n')}\n` };
}

function linesOf(notice: FactorNotice): readonly [string, ...string[]] {
  switch (notice.kind) {
    case 'on':
      return [
        'Your second factor is on',
        `Signing in with your password asks for a code of your app from now on. ${YOURS}`,
      ];
    case 'off':
      return ['Your second factor is off', `Signing in with your password asks for no code any more. ${YOURS}`];
    case 'reset':
      return [
        'Your second factor was reset',
        'The operator of this service has taken your second factor away and signed you out everywhere. You sign in with your password, and may set up a second factor anew. If you did not ask for it, tell the operator.',
      ];
    case 'codes':
      return ['You have new recovery codes', `Your former recovery codes do not work any more. ${YOURS}`];
    case 'recovery':
      return [
        'A recovery code was used',
        `Somebody signed in as you with a recovery code. ${left(notice.left)} ${YOURS}`,
      ];
    case 'closed':
      return [
        'Wrong codes were given for your account',
        `Somebody who knows your password gave ${notice.wrong} wrong codes in a row. Codes of your app are refused for a while; your recovery codes still work. If it was not you, change your password.`,
      ];
  }
}

function left(codes: number): string {
  if (codes === 0) return 'It was the last one: make new ones on your account page.';
  return codes === 1 ? 'One is left.' : `${codes} are left.`;
}
