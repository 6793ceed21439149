import { once } from 'node:events';
import { connect } from 'node:net';

/** Whether a program listens on a Unix socket. */
export async function answers(path: string): Promise<boolean> {
  const socket = connect({ path });
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EAGAIN'; // too many connections wait for it
  } finally {
    socket.destroy();
  }
}
