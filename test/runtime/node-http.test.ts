import t from 'tap';
import { networkOf } from '../../src/runtime/node-http.ts';

t.test(
  'clients are counted by their IPv4 address, or by the 64 bits of their IPv6 network however they are written',
  async (t) => {
    for (const [network, ...addresses] of [
      ['192.0.2.1', '192.0.2.1'],
      ['::ffff:192.0.2.1', '::ffff:192.0.2.1'],
      ['2001:db8:1:2', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2::', '2001:db8:1:2::6', '2001:db8:1:2:3::'],
      ['2001:db8:0:0', '2001:db8::1', '2001:db8::2', '2001:db8::a:b:c:d', '2001:db8:0:0:a:b:c:d'],
      ['2001:db8:1:0', '2001:db8:1::1', '2001:db8:1:0:a:b:c:d'],
      ['2001:0:0:1', '2001:0:0:1::5', '2001::1:0:0:0:5'],
      [':0:0:0', '::1', '::5:6:7:8'],
      ['a:b:c:d', 'a:b:c:d:e:f:::g:h:i:j', 'a:b:c:d:'], // whatever a proxy wrote
      ['', ''],
    ]) {
      for (const address of addresses) t.equal(networkOf(address), network, address);
    }
  },
);
