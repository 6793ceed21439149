/** Methods every Buffer has, undocumented but stable, that skip the dispatch of `toString`. */
interface Buffer {
  latin1Slice(start?: number, end?: number): string;
  latin1Write(text: string, offset: number, most?: number): number;
  utf8Write(text: string, offset: number): number;
  utf8Slice(start?: number, end?: number): string;
}
