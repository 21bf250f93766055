import { useState } from 'react'
import { endViewAs, startViewAs, viewAs } from '../api/view-as.ts'
import { confirm } from '../parts/dialog.tsx'
import { Icon } from '../parts/icon.tsx'
import { createStore } from '../parts/store.ts'
import { failed } from '../parts/toast.tsx'
import { Button } from '../parts/ui.tsx'
import { ViewAsDialog } from './view-as-dialog.tsx'

/** What the shown page says of rows that this caller does not see. */
export const hiddenRows = createStore<string>('')

export function ViewAsBanner() {
  const as = viewAs.use()
  const hidden = hiddenRows.use()
  if (!as) return null
  const allowWrites = async (): Promise<void> => {
    const isYes = await confirm({
      title: `Write as ${as.label}?`,
      text: 'What you change then is changed as this caller, by its rights, and stands in the audit with your name.',
      yes: 'Allow writing',
    })
    if (isYes) await startViewAs(as.who, as.label, true).catch(failed)
  }
  return (
    <div className="banner-line as" role="status">
      <Icon name="eye" />
      <span>
        Seen as <strong className="isolate">{as.label}</strong>
        {as.write ? ', who may write' : ', read only'}
        {hidden && `: ${hidden}`}
      </span>
      <span className="grow" />
      {!as.write && (
        <Button look="small" onClick={() => void allowWrites()}>
          Write too
        </Button>
      )}
      <Button look="small" onClick={endViewAs}>
        Back to administrator
      </Button>
    </div>
  )
}

export function ViewAsButton() {
  const [isOpen, open] = useState(false)
  return (
    <>
      <Button icon="eye" onClick={() => open(true)}>
        View as
      </Button>
      {isOpen && <ViewAsDialog onClose={() => open(false)} />}
    </>
  )
}
