import type { CallOptions, Core, Method, Request } from 'savanna-client/core'
import { NetworkError } from 'savanna-client/data'
import { exactJson, parseExact } from '../parts/exact.ts'

/** A caller whose answers keep every digit as the database wrote it, and whose bodies send it so. */
export function exactCore(core: Core): Core {
  async function send<T>(method: Method, path: string, request: Request = {}, call: CallOptions = {}): Promise<T> {
    const { body, type } = request
    const isJson = type === undefined && typeof body === 'object' && body !== null && !(body instanceof Blob)
    const sent = isJson ? { ...request, body: exactJson(body), type: 'application/json' } : request
    if (request.as || call.dryRun) return core.send<T>(method, path, sent, call)
    const response = await core.send<Response>(method, path, { ...sent, as: 'response' }, call)
    let text: string
    try {
      text = await response.text()
    } catch (error) {
      throw call.signal?.aborted ? call.signal.reason : new NetworkError(method, path, error)
    }
    const isJsonText = response.headers.get('content-type')?.includes('json')
    return (text && isJsonText ? parseExact(text, true) : text || undefined) as T
  }
  return Object.assign(Object.create(core), { send, parse: (text: string) => parseExact(text, true) }) as Core
}
