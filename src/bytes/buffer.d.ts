/** Methods every Buffer has, undocumented but stable, that skip the dispatch of `toString`. */
interface Buffer {
  latin1Slice(start?: number, end?: number): string;
  utf8Slice(start?: number, end?: number): string;
}
