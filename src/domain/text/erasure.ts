/** The e-mails about the erasure of a person. None is sent about one that an operator makes by command. */

interface Mail {
  readonly subject: string;
  readonly text: string;
}

/** To the owners of a company, or to operators. @param page where they do it; null: nobody knows the address of the pages */
export function askedMail(person: string, company: string | null, page: string | null): Mail {
  const whose = company === null ? 'of this service' : `of ${company.replace(/\p{Cc}/gu, ' ')}`;
  return {
    subject: `[Tollgate] ${person} asks to be erased`,
    text: `${[
      `${person} ${whose} asks that the address and the account are erased. Nothing was erased yet: an owner decides.`,
      ...(page === null ? [] : ['', page]),
    ].join('\n')}\n`,
  };
}

/** To the person, who has no account any more. @param by who did it; null: the operator */
export function erasedMail(company: string | null, by: string | null): Mail {
  const where = company === null ? 'this service' : company.replace(/\p{Cc}/gu, ' ');
  return {
    subject: '[Tollgate] Your account was erased',
    text: `${by ?? 'The operator of this service'} has erased your account and your address at ${where}. A random name stands in their place in what is kept. You cannot sign in any more.\n`,
  };
}
