import { type ReactNode, useState } from 'react'
import type { Core } from 'savanna-client/core'
import { post, sentence } from '../../../api/client.ts'
import { changed } from '../../../api/hooks.ts'
import type { Table } from '../../../api/schema.ts'
import { plural } from '../../../parts/format.ts'
import { toast } from '../../../parts/toast.tsx'
import { Button } from '../../../parts/ui.tsx'
import { changeCount, discard, editsOf } from './edits.ts'
import { Refused, save } from './save.ts'

type ChangesBarProps = { name: string; table: Table; core: Core; status: ReactNode; onSaved(): void }

/** What was changed goes as one batch, all or none; what was saved can be undone from the change log. */
export function ChangesBar({ name, table, core, status, onSaved }: ChangesBarProps) {
  const store = editsOf(name)
  const edits = store.use()
  const [busy, setBusy] = useState(false)
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
  const [problem] = edits.problems.values()
  return (
    <div className="grid-bar changes" role="group" aria-label="Changes that are not saved">
      <strong>{plural(changes, 'change')}</strong>
      {problem && <span className="code-del">{problem.message}</span>}
      <span className="grow" />
      <Button look="small" onClick={() => discard(store)} disabled={busy}>
        Discard
      </Button>
      <Button look="small primary" busy={busy} onClick={() => void saveAll()}>
        Save
      </Button>
    </div>
  )
}
