/** One record of CSV as in RFC 4180, without the end of its line. */
export function csvLine(cells: readonly string[]): string {
  return cells.map((text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(',');
}

/** A name that a spreadsheet would take for a formula, as text. Not for amounts, which may begin with a minus sign. */
export function harmless(text: string): string {
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
}
