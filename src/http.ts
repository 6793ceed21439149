/**
 * node:http without what comes with it. An import of a built-in module reads each of its
 * exports, and some of this one's load what they name only when read: fetch, WebSocket and
 * HTTP/2, 16 MB and 30 ms of every start. Its types are imported as ever.
 */
export const { Agent, createServer, get, IncomingMessage, request } = process.getBuiltinModule('node:http');
