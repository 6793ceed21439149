/** A file as a spreadsheet reads it that takes this character between two cells: the byte order mark is no part of it. */
export function readAs(text: string, separator: string): string[][] {
  const rows: string[][] = [[]];
  let [cell, isQuoted, isNew] = ['', false, true];
  const endCell = () => {
    rows.at(-1)?.push(cell);
    [cell, isNew] = ['', true];
  };
  const content = text.replace(/^\ufeff/, '');
  for (let at = 0; at < content.length; at++) {
    const letter = content[at] as string;
    if (isQuoted) {
      if (letter !== '"') cell += letter;
      else if (content[at + 1] === '"') cell += content[at++];
      else isQuoted = false;
    } else if (letter === '"' && isNew) [isQuoted, isNew] = [true, false];
    else if (letter === separator) endCell();
    else if (letter === '\n' || letter === '\r') {
      if (letter === '\r' && content[at + 1] === '\n') at++;
      endCell();
      rows.push([]);
    } else [cell, isNew] = [cell + letter, false];
  }
  if (rows.at(-1)?.length === 0 && cell === '') rows.pop();
  else endCell();
  return rows;
}

/** Whether a spreadsheet takes the cell for a formula. Numbers may begin with a minus. */
export function beginsFormula(cell: string): boolean {
  if (/^-\d+([.,]\d+)?$/.test(cell)) return false;
  return /^[\s"]*[=+\-@＝＋－＠]|^[\t\r\n]/.test(cell);
}
