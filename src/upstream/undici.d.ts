declare module 'undici/lib/core/connect.js' {
  import type { ConnectorOf } from './fast-pool.ts';

  // options it does not know go to net.connect
  const connectorOf: ConnectorOf;
  export default connectorOf;
}

declare module 'undici/lib/core/symbols.js' {
  /** undici's reader of the answers on one connection. */
  export interface Parser {
    readonly statusCode: number;
    /** Bytes of the body so far. */
    readonly bytesRead: number;
    /** Another request may follow on the connection. */
    shouldKeepAlive: boolean;
    /** The head of an answer was read, interim ones too. */
    onHeadersComplete(status: number, ...rest: unknown[]): number;
    onMessageComplete(): number;
  }

  const symbols: { readonly kSocket: unique symbol; readonly kParser: unique symbol };
  export default symbols;

  /** A client of undici's that has a connection. */
  export type Connected = { [symbols.kSocket]: { [symbols.kParser]: Parser } };
}
