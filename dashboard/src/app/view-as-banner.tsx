import { useState } from 'react'
import { endViewAs, startViewAs, viewAs } from '../api/view-as.ts'
import { visible } from '../parts/format.ts'
import { Icon } from '../parts/icon.tsx'
import { createStore } from '../parts/store.ts'
import { failed } from '../parts/toast.tsx'
import { Button } from '../parts/ui.tsx'
import { confirmWriteAs } from './view-as-confirm.ts'
import { ViewAsDialog } from './view-as-dialog.tsx'

/** What the shown page says of rows that this caller does not see. */
export const hiddenRows = createStore<string>('')

export function ViewAsBanner() {
  const as = viewAs.use()
  const hidden = hiddenRows.use()
  if (!as) return null
  const allowWrites = async (): Promise<void> => {
    if (await confirmWriteAs(as.label)) await startViewAs(as.who, as.label, true).catch(failed)
  }
  return (
    <div className="banner-line as" role="status">
      <Icon name="eye" />
      <span>
        Seen as <strong className="isolate">{visible(as.label)}</strong>
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
