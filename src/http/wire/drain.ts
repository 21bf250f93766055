import type { Server } from 'node:http'
import { Server as NetServer } from 'node:net'

/** A connection that was just accepted may carry a request that has not arrived yet; it gets this long. */
const SILENT_GRACE_MS = 500
/** A kept connection in steady use brings one more request within this time, and its answer says that it was the last. */
const IDLE_GRACE_MS = 100
const LOOK_EVERY_MS = 25

/** Ends a server without failing anybody: whoever waits for an answer gets it, as far as the time allows. */
export async function drain(
  server: Server,
  {
    onDrain,
    isBusy,
    timeoutMs,
    cutUpgraded,
  }: { onDrain: () => void; isBusy: () => boolean; timeoutMs: number; cutUpgraded: () => void },
): Promise<void> {
  const began = performance.now()
  // The listener alone: http's own close would also cut idle connections whose next request is already in the kernel.
  const closed = new Promise<void>((resolve) => {
    NetServer.prototype.close.call(server, () => resolve())
  })
  onDrain()
  // After the poll phase, so that requests which have arrived count.
  const look = setInterval(() => setImmediate(sweep), LOOK_EVERY_MS)
  const sweep = (): void => {
    const waited = performance.now() - began
    if (waited > IDLE_GRACE_MS) server.closeIdleConnections()
    const onlySilentLeft = !isBusy() && waited > SILENT_GRACE_MS
    if (!onlySilentLeft && waited <= timeoutMs) return
    server.closeAllConnections()
    cutUpgraded()
  }
  await closed
  clearInterval(look)
  server.close()
}
