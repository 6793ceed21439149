import { refuse } from '../field.ts';
import { refusal } from '../refusal.ts';

const CIDR = /^([\d.]+|[\da-f:.]*:[\da-f:.]*)(?:\/(\d{1,3}))?$/i;
const OCTET = /^(0|[1-9]\d{0,2})$/; // other programs take leading zeros for octal

/**
 * A network that a key may be used from (contract section 5), in its shortest form, such as
 * "10.0.0.0/8" or "2001:db8::/32". An address without a prefix length means this address alone.
 * @throws FieldError; when bits after the prefix are set, it says which network was probably meant
 */
export function readCidr(text: string): string {
  const [, address = '', prefix] = CIDR.exec(text.trim()) ?? [];
  const width = address.includes(':') ? 128 : 32;
  const value = width === 128 ? parseIPv6(address) : parseIPv4(address);
  const length = prefix === undefined ? width : Number(prefix);
  if (value === null || length > width) {
    refuse(refusal('network'), text);
  }
  if (width === 128 && value >> 32n === 0xffffn) {
    const meant = networkOf(
      value & 0xffffffffn,
      32,
      length < 96 ? Math.min(length, 32) : length - 96,
    );
    refuse(refusal('networkOfIPv4', { network: show(meant, 32) }), text);
  }
  const network = networkOf(value, width, length);
  if (network.value !== value) {
    const address = show({ value, length: width }, width);
    refuse(refusal('networkBits', { network: show(network, width), address }), text);
  }
  return show(network, width);
}

interface Network {
  /** The address as a number. */
  readonly value: bigint;
  readonly length: number;
}

function networkOf(value: bigint, width: number, length: number): Network {
  const rest = BigInt(width - length);
  return { value: (value >> rest) << rest, length };
}

function parseIPv4(text: string): bigint | null {
  const octets = text.split('.');
  if (octets.length !== 4 || !octets.every((each) => OCTET.test(each) && Number(each) <= 255))
    return null;
  return octets.reduce((value, each) => (value << 8n) | BigInt(each), 0n);
}

/** The URL parser knows every way to write an IPv6 address. @param text hex digits, colons and dots only */
function parseIPv6(text: string): bigint | null {
  const url = `http://[${text}]/`;
  if (!URL.canParse(url)) return null;
  const [head = [], tail] = new URL(url).hostname
    .slice(1, -1)
    .split('::')
    .map((half) => half.split(':').filter((group) => group !== ''));
  const zeros = tail === undefined ? [] : Array<string>(8 - head.length - tail.length).fill('0');
  return [...head, ...zeros, ...(tail ?? [])].reduce(
    (value, each) => (value << 16n) | BigInt(`0x${each}`),
    0n,
  );
}

function show({ value, length }: Network, width: number): string {
  const size = width === 32 ? 8n : 16n;
  const parts: bigint[] = [];
  for (let shift = BigInt(width) - size; shift >= 0n; shift -= size)
    parts.push(BigInt.asUintN(Number(size), value >> shift));
  if (width === 32) return `${parts.join('.')}/${length}`;
  return `${new URL(`http://[${parts.map((part) => part.toString(16)).join(':')}]/`).hostname.slice(1, -1)}/${length}`;
}
