declare module 'undici/lib/core/connect.js' {
  import type { ConnectorOf } from './fast-pool.ts';

  // options it does not know go to net.connect
  const connectorOf: ConnectorOf;
  export default connectorOf;
}
