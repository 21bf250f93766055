import type { Server } from 'node:http'
import { Server as NetServer } from 'node:net'

/** Time for the first request of a connection that was just accepted. */
const SILENT_GRACE_MS = 500
/** Time for one more request on a busy keep-alive connection; its response carries `Connection: close`. */
const IDLE_GRACE_MS = 100
const SWEEP_EVERY_MS = 25

/** Stops a server; requests in flight get their response within `timeoutMs`. */
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
  // Closes only the listener: http's own close would also cut idle connections whose next request is in the kernel.
  const closed = new Promise<void>((resolve) => {
    NetServer.prototype.close.call(server, () => resolve())
  })
  onDrain()
  // After the poll phase, so that requests in the kernel are counted.
  const timer = setInterval(() => setImmediate(sweep), SWEEP_EVERY_MS)
  const sweep = (): void => {
    const waited = performance.now() - began
    if (waited > IDLE_GRACE_MS) server.closeIdleConnections()
    const onlySilentLeft = !isBusy() && waited > SILENT_GRACE_MS
    if (!onlySilentLeft && waited <= timeoutMs) return
    server.closeAllConnections()
    cutUpgraded()
  }
  await closed
  clearInterval(timer)
  server.close()
}
