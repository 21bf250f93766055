import { MessageChannel, type MessagePort } from 'node:worker_threads'

/** Smaller ones may share their memory with others. */
const LEAST_BYTES = 64 * 1024

let nowhere: MessagePort | undefined

function portToNowhere(): MessagePort {
  const { port1, port2 } = new MessageChannel()
  port2.close()
  port1.unref()
  return port1
}

/**
 * Gives the memory of a large buffer back at once. The collector would do so too, but late: what gigabytes leave behind in
 * buffers grows to tens of megabytes before it runs. The buffer, which must be the only one on its memory, is empty then.
 */
export function dropMemory({ buffer, byteLength }: Buffer): void {
  if (byteLength < LEAST_BYTES || !(buffer instanceof ArrayBuffer)) return
  nowhere ??= portToNowhere()
  // Transferred to a port that is closed, it is dropped.
  nowhere.postMessage(null, [buffer])
}
