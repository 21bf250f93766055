import { type Agent, request } from 'node:http'

/** A status, or why there is none. */
export type Outcome = number | string

const CUT = new Set(['ECONNRESET', 'EPIPE'])

/** One GET over a kept connection, which may close under a request: then it is sent again (RFC 9112 section 9.3.1). */
export const get = (url: string, agent: Agent): Promise<Outcome> =>
  new Promise((resolve) => {
    const asked = request(url, { agent }, (answer) => {
      answer.resume().once('end', () => resolve(answer.statusCode ?? 0))
      answer.once('error', (error) => resolve(`cut off: ${error.message}`))
    })
    asked.once('error', (error: NodeJS.ErrnoException) => {
      // A new connection that waits at a listener while it closes is reset by the kernel.
      if (CUT.has(error.code ?? '')) resolve(asked.reusedSocket ? get(url, agent) : 'ECONNREFUSED')
      else resolve(error.code ?? error.message)
    })
    asked.end()
  })
