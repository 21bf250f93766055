import { asClient, asCurl, doneCalls } from '../api/calls.ts'
import { Dialog } from '../parts/dialog.tsx'
import { clock, visible } from '../parts/format.ts'
import { createStore } from '../parts/store.ts'
import { Snippets } from '../parts/ui.tsx'

const isOpen = createStore(false)
export const openDoneCalls = (): void => isOpen.set(true)

/** What was just done on this page, as calls to copy. */
export function DoneCalls() {
  return isOpen.use() ? <DoneDialog /> : null
}

function DoneDialog() {
  const calls = doneCalls.use()
  return (
    <Dialog title="What was done, as calls" look="wide" onClose={() => isOpen.set(false)}>
      <p className="muted">
        What this page changed since it was loaded, latest first. Put a token of your own into TOKEN; secrets are left
        out.
      </p>
      {calls.length === 0 && <p>Nothing yet: what you save, create or delete from now on stands here.</p>}
      {calls.map((call) => (
        <section key={call.id} className="panel">
          <h3 className="isolate">
            <span className="muted">{clock(call.at)}</span> {call.method} {visible(call.path)}
          </h3>
          <Snippets
            label={`Call ${call.id}`}
            forms={[
              ['curl', asCurl(call)],
              ['Client', asClient(call)],
            ]}
          />
        </section>
      ))}
    </Dialog>
  )
}
