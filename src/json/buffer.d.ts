/** Methods of every Buffer, undocumented but stable: faster than `toString` and `write`, which call them. */
interface Buffer {
  latin1Slice(start?: number, end?: number): string;
  latin1Write(text: string, offset: number, most?: number): number;
  utf8Write(text: string, offset: number): number;
  utf8Slice(start?: number, end?: number): string;
}
