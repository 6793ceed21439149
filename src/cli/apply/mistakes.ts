/** Mistakes of a file, each with its line and column. */
export class FileMistakes extends Error {
  override readonly name = 'FileMistakes';
  readonly lines: readonly string[];
  constructor(lines: readonly string[]) {
    super(lines.join('\n'));
    this.lines = lines;
  }
}
