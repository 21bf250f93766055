import { useEffect, useState } from 'react'
import { get } from '../../api/client.ts'
import { session } from '../../api/session.ts'

export type Entry = { id: string; time: string; level: string; message: string; attrs?: Record<string, unknown> }
type Answer = { entries: Entry[]; next?: string; message?: string }

const KEPT = 1_000
const WAIT_SECONDS = 15
const AGAIN_MS = 2_000

/** The log as it is written: what came since the last answer, as soon as there is some. */
export function useLog({ find, level, isLive }: { find: string; level: string; isLive: boolean }) {
  const { id } = session.use()
  const [entries, setEntries] = useState<readonly Entry[] | null>(null)
  const [note, setNote] = useState('')
  const [error, setError] = useState<unknown>(null)
  useEffect(() => setEntries(null), [id, find, level])
  useEffect(() => {
    const over = new AbortController()
    const { signal } = over
    const filter = { level: level.toLowerCase(), search: find || undefined }
    async function follow(): Promise<void> {
      let after: string | undefined
      while (!signal.aborted) {
        try {
          const wish = after === undefined ? { limit: KEPT } : { after, wait: WAIT_SECONDS }
          const answer = await get<Answer>('/api/admin/logs', { ...filter, ...wish }, { signal })
          const isFirst = after === undefined
          setEntries((before) => (isFirst ? answer.entries : [...(before ?? []), ...answer.entries].slice(-KEPT)))
          setNote(answer.message ?? '')
          setError(null)
          if (!isLive || answer.next === undefined) return
          after = answer.next
        } catch (failure) {
          if (signal.aborted) return
          setError(failure)
          await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
        }
      }
    }
    void follow()
    return () => over.abort()
  }, [id, find, level, isLive])
  return { entries, note, error }
}
