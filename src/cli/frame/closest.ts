/** A word that somebody may have meant, such as "company" for "compnay"; undefined: none is near enough. */
export function closest(word: string, known: Iterable<string>): string | undefined {
  const typed = word.toLowerCase();
  const most = Math.max(1, Math.floor(typed.length / 3));
  let near: { readonly distance: number; readonly known: string } | undefined;
  const begun: string[] = [];
  for (const each of known) {
    const other = each.toLowerCase();
    if (typed.length > 2 && other.startsWith(typed)) begun.push(each);
    if (Math.abs(other.length - typed.length) > most) continue;
    const distance = distanceOf(typed, other);
    if (distance <= most && distance < Math.min(near?.distance ?? most + 1, other.length))
      near = { distance, known: each };
  }
  return near?.known ?? (begun.length === 1 ? begun[0] : undefined);
}

/** `; did you mean "company"?`, or nothing where no word is near. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const found = closest(word, known);
  return found === undefined ? '' : `; did you mean ${JSON.stringify(found)}?`;
}

/** How many letters to add, remove, replace, or swap with their neighbour lead from one word to the other. */
function distanceOf(one: string, other: string): number {
  let [beforeLast, last]: number[][] = [
    [],
    Array.from({ length: other.length + 1 }, (_, at) => at),
  ];
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const isSame = one[i - 1] === other[j - 1];
      let least = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + (isSame ? 0 : 1));
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1])
        least = Math.min(least, at(beforeLast, j - 2) + 1);
      row.push(least);
    }
    [beforeLast, last] = [last, row];
  }
  return at(last, other.length);
}

const at = (row: readonly number[] | undefined, column: number): number => row?.[column] as number;
