import { useEffect } from 'react'
import { get, sentence } from '../../../api/client.ts'
import { useData } from '../../../api/view-as.ts'
import { hiddenRows } from '../../../app/view-as-banner.tsx'
import { count, plural } from '../../../parts/format.ts'

/** How many rows the one that is viewed as does not see, counted by aggregates only. */
export function useHiddenRows(name: string, filter: string): void {
  const { as } = useData()
  useEffect(() => {
    if (!as) return
    let isOver = false
    const path = `/api/collections/${encodeURIComponent(name)}`
    const query = { aggregate: 'count', filter: filter || undefined }
    type Counted = { items: { count: number }[] }
    const counted = (answer: Counted): number => Number(answer.items[0]?.count ?? 0)
    Promise.all([get<Counted>(path, query), as.core.send<Counted>('GET', path, { query })])
      .then(([all, seen]) => {
        if (!isOver)
          hiddenRows.set(
            `${plural(counted(seen), 'row')} of ${count(counted(all))}, ${count(counted(all) - counted(seen))} not seen`,
          )
      })
      .catch((error) => {
        if (!isOver) hiddenRows.set(sentence(error))
      })
    return () => {
      isOver = true
      hiddenRows.set('')
    }
  }, [as, name, filter])
}
