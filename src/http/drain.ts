import type { Server } from 'node:http'

/** A connection that was just accepted may carry a request that has not arrived yet; it gets this long. */
const SILENT_GRACE_MS = 500
const LOOK_EVERY_MS = 25

/** Ends a server without failing anybody: whoever waits for an answer gets it, as far as the time allows. */
export async function drain(
  server: Server,
  { hooks, isBusy, timeoutMs }: { hooks: readonly (() => void)[]; isBusy: () => boolean; timeoutMs: number },
): Promise<void> {
  const began = performance.now()
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve())
  })
  for (const hook of hooks) hook()
  const look = setInterval(() => {
    const waited = performance.now() - began
    server.closeIdleConnections()
    const onlySilentLeft = !isBusy() && waited > SILENT_GRACE_MS
    if (onlySilentLeft || waited > timeoutMs) server.closeAllConnections()
  }, LOOK_EVERY_MS)
  await closed
  clearInterval(look)
}
