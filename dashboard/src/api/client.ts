import { QueryClient } from '@tanstack/react-query'
import type { CallOptions, Core, Method, Request } from 'savanna-client/core'
import { ApiError, createClient, type DataClient, NetworkError } from 'savanna-client/data'
import type { AnyDatabase } from 'savanna-client/database'
import { createRealtime, type Realtime } from 'savanna-client/realtime'
import { createStore } from '../parts/store.ts'
import { noteCall } from './calls.ts'
import { exactCore } from './exact-core.ts'
import { session, sessionEnded, signedOut } from './session.ts'
import { unlocked } from './unlock.ts'

export { ApiError } from 'savanna-client/data'

/** Whether the server and its database answer; a sentence while they do not. */
export const connection = createStore<string | null>(null)

export const queries = new QueryClient({
  defaultOptions: {
    queries: { retry: false, staleTime: 5_000, refetchOnWindowFocus: true, networkMode: 'always' },
    mutations: { networkMode: 'always' },
  },
})

const AWAY = 'The server cannot be reached. What you typed is kept; this page goes on by itself.'
const NO_DATABASE = 'The database cannot be reached. What you typed is kept; this page goes on by itself.'

let waiting = false

/** Ends at once when the machine has a network again. */
const pauseUntilOnline = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    const over = (): void => {
      clearTimeout(timer)
      removeEventListener('online', over)
      resolve()
    }
    const timer = setTimeout(over, ms)
    addEventListener('online', over)
  })

/** Asks until there is an answer again, then reads everything anew. */
async function waitForServer(): Promise<void> {
  if (waiting) return
  waiting = true
  for (let pause = 500; ; pause = Math.min(pause * 1.5, 3_000)) {
    await pauseUntilOnline(pause)
    const status = await fetch('/health', { cache: 'no-store' }).then(
      (response) => response.status,
      () => 0,
    )
    if (status === 200) break
    connection.set(status === 503 ? NO_DATABASE : AWAY)
  }
  waiting = false
  connection.set(null)
  await queries.invalidateQueries()
}

function onError(error: Error): void {
  const isAway = error instanceof NetworkError
  const isDown =
    error instanceof ApiError && error.status === 503 && /database|stopping|unavailable/.test(error.message)
  if (isAway || isDown) {
    connection.set(isAway ? AWAY : NO_DATABASE)
    void waitForServer()
  }
}

/** Calls of the administrator who is signed in. */
function adminClient(): DataClient<AnyDatabase> {
  const client = createClient<AnyDatabase>(location.origin, { onError, retry: 1, timeout: 40_000 })
  client.core.caller = {
    ...client.core.caller,
    who: () => session.get().id,
    token: async () => session.get().token ?? undefined,
    async renew(refused) {
      sessionEnded(refused)
      return undefined
    },
    onChange: (changed) => session.subscribe(changed),
  }
  return client
}

export const svc = adminClient()
/** For rows: each value as the database wrote it. */
export const dataCore: Core = exactCore(svc.core)
export const realtime: Realtime = createRealtime(dataCore)

/** Sends calls as an impersonated caller, with the token of that impersonation. */
export function clientAs(token: string): { core: Core; realtime: Realtime } {
  const client = createClient<AnyDatabase>(location.origin, { key: token, onError, retry: 1, timeout: 40_000 })
  const core = exactCore(client.core)
  return { core, realtime: createRealtime(core) }
}

/** Every call of a page. One that the locked dashboard refuses is sent again once it is unlocked. */
export async function send<T>(
  method: Method,
  path: string,
  request: Request = {},
  call: CallOptions = {},
  core: Core = svc.core,
): Promise<T> {
  const attempt = async (): Promise<T> => {
    const { token } = session.get()
    try {
      const answer = await core.send<T>(method, path, request, call)
      noteCall(method, path, request)
      return answer
    } catch (error) {
      const isAdmin = core === svc.core || core === dataCore
      if (isAdmin && error instanceof ApiError && error.status === 401 && token) sessionEnded(token)
      throw error
    }
  }
  try {
    return await attempt()
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 423 || !(await unlocked())) throw error
    return attempt()
  }
}

type Query = Record<string, unknown>

export const get = <T>(path: string, query?: Query, call?: CallOptions): Promise<T> =>
  send('GET', path, query ? { query } : {}, call)
export const post = <T>(path: string, body?: unknown, call?: CallOptions): Promise<T> =>
  send('POST', path, body === undefined ? {} : { body }, call)
export const put = <T>(path: string, body: unknown): Promise<T> => send('PUT', path, { body })
export const patch = <T>(path: string, body: unknown): Promise<T> => send('PATCH', path, { body })
export const remove = <T>(path: string, query?: Query): Promise<T> => send('DELETE', path, query ? { query } : {})

/** What went wrong, in a line. */
export function sentence(error: unknown): string {
  if (error instanceof NetworkError) return 'No answer from the server.'
  if (error instanceof ApiError) {
    const details = Object.entries(error.data ?? {}).flatMap(([name, detail]) => {
      const message = (detail as { message?: unknown } | null)?.message
      return typeof message === 'string' && !['did_you_mean', 'operation'].includes(name) ? [`${name}: ${message}`] : []
    })
    const near = (error.data?.['did_you_mean'] as { message?: string } | undefined)?.message
    const text = [error.message, ...details].join(' · ')
    return near ? `${text}. Did you mean “${near}”?` : text
  }
  return error instanceof Error ? error.message : String(error)
}

export const newRequestId = (): string => `dash_${crypto.randomUUID().replaceAll('-', '')}`

/** The token ends on the server too; where the server is away, by itself. */
export async function signOut(): Promise<void> {
  await svc.request('POST', '/api/admin/auth/logout', {}, { timeout: 3_000, retry: 0 }).catch(() => {})
  signedOut()
}
