import type { Core } from 'savanna-client/core'
import type { Realtime } from 'savanna-client/realtime'
import { createStore } from '../parts/store.ts'
import { clientAs, dataCore, post, realtime } from './client.ts'
import { session } from './session.ts'

export type Who = { user_id: string } | { key_id: string } | { anonymous: true } | { claims: Record<string, unknown> }

export type ViewAs = {
  who: Who
  /** As it stands in the banner. */
  label: string
  write: boolean
  token: string
  expiresAt: string
  core: Core
  realtime: Realtime
}

/** As whom tables, SQL and the API are seen; null = as the administrator. */
export const viewAs = createStore<ViewAs | null>(null)

session.subscribe(() => {
  if (!session.get().token) viewAs.set(null)
})

let renewal: ReturnType<typeof setTimeout> | undefined

/** A token of an impersonation lives five minutes; the page makes the next one while it is open. */
export async function startViewAs(who: Who, label: string, write = false): Promise<void> {
  clearTimeout(renewal)
  const answer = await post<{ token: string; expires_at: string }>('/api/admin/impersonate', {
    ...who,
    ...(write && { write }),
  })
  const { core, realtime: heard } = clientAs(answer.token)
  viewAs.set({
    who,
    label,
    write,
    token: answer.token,
    expiresAt: answer.expires_at,
    core,
    realtime: heard,
  })
  const left = new Date(answer.expires_at).getTime() - Date.now() - 20_000
  renewal = setTimeout(
    () => {
      if (viewAs.get()?.token === answer.token) startViewAs(who, label, write).catch(() => viewAs.set(null))
    },
    Math.max(1_000, left),
  )
}

export function endViewAs(): void {
  clearTimeout(renewal)
  viewAs.set(null)
}

type Data = { core: Core; realtime: Realtime; key: string; as: ViewAs | null }

/** Who reads and writes rows. */
export function useData(): Data {
  const as = viewAs.use()
  const { id } = session.use()
  return as
    ? { core: as.core, realtime: as.realtime, key: `as ${JSON.stringify(as.who)} ${as.write}`, as }
    : { core: dataCore, realtime, key: `admin ${id}`, as: null }
}
