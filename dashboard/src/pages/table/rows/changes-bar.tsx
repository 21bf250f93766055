import { type ReactNode, useState } from 'react'
import type { Core } from 'savanna-client/core'
import { ApiError, post, sentence } from '../../../api/client.ts'
import { changed } from '../../../api/hooks.ts'
import type { Table } from '../../../api/schema.ts'
import { Dialog } from '../../../parts/dialog.tsx'
import { plural, visible } from '../../../parts/format.ts'
import { Meaning } from '../../../parts/meaning.tsx'
import { toast } from '../../../parts/toast.tsx'
import { Button } from '../../../parts/ui.tsx'
import { type ActionName, Why } from '../why.tsx'
import { changeCount, discard, type Edits, editsOf, takeBack } from './edits.ts'
import type { RowData } from './row-pages.ts'
import { Refused, save } from './save.ts'

type ChangesBarProps = { name: string; table: Table; core: Core; status: ReactNode; onSaved(): void }

/** What was changed goes as one batch, all or none; what was saved can be undone from the change log. */
export function ChangesBar({ name, table, core, status, onSaved }: ChangesBarProps) {
  const store = editsOf(name)
  const edits = store.use()
  const [busy, setBusy] = useState(false)
  const [isAsking, setAsking] = useState(false)
  const changes = changeCount(edits)

  async function undo(requestId: string): Promise<void> {
    try {
      await post('/api/admin/undo', { request_id: requestId })
      toast('Undone')
      onSaved()
    } catch (error) {
      toast(`Not undone: ${sentence(error)}`, { bad: true })
    }
  }
  async function saveAll(): Promise<void> {
    setBusy(true)
    try {
      const requestId = await save(core, name, table, edits)
      discard(store)
      onSaved()
      await changed('/api/admin/changes')
      toast(`${plural(changes, 'change')} saved`, { action: { label: 'Undo', run: () => void undo(requestId) } })
    } catch (error) {
      if (error instanceof Refused) store.set({ ...store.get(), problems: new Map([[error.key, error.problem]]) })
      toast(`Nothing was saved: ${sentence(error)}`, { bad: true })
    } finally {
      setBusy(false)
    }
  }
  if (changes === 0) return <div className="grid-bar">{status}</div>
  const [[key, problem] = []] = edits.problems
  const tried = key !== undefined && isRefusal(problem?.error) ? triedOf(edits, key) : null
  return (
    <div className="grid-bar changes" role="group" aria-label="Changes that are not saved">
      <strong>{plural(changes, 'change')}</strong>
      {problem && (
        <span className="code-del">
          {isThere(edits, key) && <span className="isolate">{`Row ${visible(key)}: `}</span>}
          {problem.message} <Meaning error={problem.error} />
        </span>
      )}
      {key !== undefined && (
        <Button look="small" onClick={() => takeBack(store, key)} disabled={busy}>
          Take this row back
        </Button>
      )}
      {tried && (
        <Button look="small" onClick={() => setAsking(true)}>
          Why?
        </Button>
      )}
      <span className="grow" />
      <Button look="small" onClick={() => discard(store)} disabled={busy}>
        Discard
      </Button>
      <Button look="small primary" busy={busy} onClick={() => void saveAll()}>
        Save
      </Button>
      {isAsking && tried && (
        <Dialog title="Why was it refused?" look="side-panel" onClose={() => setAsking(false)}>
          <Why table={name} {...tried} />
        </Dialog>
      )}
    </div>
  )
}

/** A row that is not new is named by its key, because the grid no longer has it once it was deleted elsewhere. */
const isThere = ({ updated, deleted }: Edits, key: string | undefined): key is string =>
  key !== undefined && (updated.has(key) || deleted.has(key))

/** Policies and grants refuse with 403, and rows that policies hide are not there. */
const isRefusal = (error: unknown): boolean => error instanceof ApiError && [403, 404].includes(error.status)

function triedOf(edits: Edits, key: string): { only: ActionName; id?: string; row?: RowData } {
  if (edits.deleted.has(key)) return { only: 'delete', id: key }
  const made = edits.created.find(({ id }) => id === key)
  if (made) return { only: 'insert', row: Object.fromEntries(made.values) }
  return { only: 'update', id: key, row: Object.fromEntries(edits.updated.get(key)?.values ?? []) }
}
