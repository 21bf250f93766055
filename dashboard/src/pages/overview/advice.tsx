import { useApi } from '../../api/hooks.ts'
import { useGo } from '../../app/navigate.tsx'
import { count, visible } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Badge, Button } from '../../parts/ui.tsx'
import { openTab } from '../sql/tabs.ts'

type Item = { kind: string; table: string; what: string; sql: string; gain?: { before: number; after: number } }

/** More are in `svc advise`. */
const MOST = 20
const FRESH_MS = 60_000

/** What would make the database faster or safer. Its SQL opens in a tab, to be looked at before it runs. */
export function Advice() {
  const { data } = useApi<{ items: Item[] }>('/api/admin/advice', {}, { fresh: FRESH_MS })
  const go = useGo()
  if (!data) return null
  const { items } = data
  return (
    <section className="card">
      <div className="card-head">
        <h2>Advice</h2>
        {items.length === 0 ? <Badge look="ok">none</Badge> : <Badge look="warn">{items.length}</Badge>}
      </div>
      <ul className="panel">
        {items.slice(0, MOST).map(({ table, what, sql, gain }) => (
          <li key={`${table} ${what}`} className="note">
            <Icon name="table" />
            <div className="grow">
              {table !== '' && <strong className="isolate">{visible(table)}: </strong>}
              {what}
              {gain && ` (cost ${count(Math.round(gain.before))} → ${count(Math.round(gain.after))})`}
            </div>
            <Button
              look="small"
              aria-label={`Open the SQL: ${what}`}
              onClick={() => {
                openTab(`-- ${what}\n${sql};`)
                go('/sql')
              }}
            >
              SQL
            </Button>
          </li>
        ))}
      </ul>
    </section>
  )
}
