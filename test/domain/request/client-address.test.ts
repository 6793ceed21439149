import { BlockList } from 'node:net';
import t from 'tap';
import { isWithin } from '../../../src/domain/key.ts';
import { clientAddress } from '../../../src/domain/request/client-address.ts';

const forwarded = (...values: string[]): string[] => [
  'Host',
  'x',
  ...values.flatMap((one) => ['X-Forwarded-For', one]),
];

t.test(
  'without proxies the address is that of the connection, whatever a header says',
  async (t) => {
    t.equal(clientAddress(0, '10.0.0.9', forwarded('192.0.2.1')), '10.0.0.9');
    t.equal(clientAddress(0, undefined, forwarded('192.0.2.1')), null, 'a Unix socket has none');
  },
);

t.test(
  'behind proxies it is the one that the outermost of them wrote, counted from the right',
  async (t) => {
    const chain = forwarded('made-up, 192.0.2.1', '198.51.100.2 ,203.0.113.3');
    t.equal(clientAddress(1, '10.0.0.9', chain), '203.0.113.3');
    t.equal(clientAddress(2, '10.0.0.9', chain), '198.51.100.2', 'several headers are one');
    t.equal(clientAddress(3, undefined, chain), '192.0.2.1', 'behind a Unix socket too');
    t.equal(
      clientAddress(5, '10.0.0.9', chain),
      null,
      'fewer entries than proxies: nobody is believed',
    );
    t.equal(clientAddress(1, '10.0.0.9', []), null);
    t.equal(clientAddress(1, '10.0.0.9', forwarded('')), null);
    t.equal(
      clientAddress(2, '10.0.0.9', forwarded('192.0.2.1,,203.0.113.3')),
      null,
      'an empty entry counts',
    );
    t.equal(clientAddress(1, '10.0.0.9', ['x-forwarded-for', '192.0.2.1']), '192.0.2.1');
  },
);

t.test('a port that a proxy adds is not part of the address', async (t) => {
  for (const [written, address] of [
    ['192.0.2.1:5000', '192.0.2.1'],
    ['[2001:db8::1]:5000', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['2001:db8::1', '2001:db8::1'],
    ['::ffff:192.0.2.1', '::ffff:192.0.2.1'],
  ] as const) {
    t.equal(clientAddress(1, undefined, forwarded(written)), address);
  }
});

t.test(
  'an address is in a network in whatever form it comes; what is no address is in none',
  async (t) => {
    const networks = new BlockList();
    networks.addSubnet('10.1.0.0', 16, 'ipv4');
    networks.addSubnet('2001:db8::', 32, 'ipv6');
    const inside = [
      '10.1.2.3',
      '::ffff:10.1.2.3',
      '::FFFF:0a01:0203',
      '2001:db8:1::5',
      '2001:0DB8:0:0:0:0:0:1',
    ];
    const outside = ['10.2.0.1', '::ffff:10.2.0.1', '2001:db9::1', '::1', '127.0.0.1'];
    const none = [
      '',
      'unknown',
      '_hidden',
      '10.1.2',
      '10.1.2.3.4',
      '10.1.2.3/16',
      '010.1.2.3',
      '10.1.2.3:x',
      ':',
      '[10.1.2.3',
    ];
    for (const address of inside) t.equal(isWithin(networks, address), true, address);
    for (const address of [...outside, ...none, null])
      t.equal(isWithin(networks, address), false, String(address));
  },
);
