declare module 'undici/lib/core/connect.js' {
  import type { buildConnector } from 'undici';
  // whatever it does not know itself goes to net.connect
  export default function (
    options: buildConnector.BuildOptions & { readonly onread?: object },
  ): buildConnector.connector;
}
