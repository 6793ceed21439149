declare module 'undici/lib/dispatcher/client.js' {
  import { Client } from 'undici';
  export default Client;
}

declare module 'undici/lib/core/connect.js' {
  import type { buildConnector } from 'undici';
  // whatever it does not know itself goes to net.connect
  export default function (
    options: buildConnector.BuildOptions & { readonly highWaterMark?: number; readonly onread?: object },
  ): buildConnector.connector;
}
