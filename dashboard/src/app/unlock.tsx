import { ApiError, svc } from '../api/client.ts'
import { unlockRequest } from '../api/unlock.ts'
import { FormDialog } from '../parts/dialog.tsx'
import { failed, toast } from '../parts/toast.tsx'
import { Button } from '../parts/ui.tsx'
import { hasPasskeys, passkeyAnswer } from './passkey.ts'

/** Where `admin.dashboard_locked` is on: the dashboard reads, and writes for ten minutes after this. */
export function Unlock() {
  const request = unlockRequest.use()
  if (!request) return null
  return (
    <FormDialog
      title="Unlock the dashboard"
      yes="Unlock for ten minutes"
      intro={
        <>
          <p>This dashboard is read-only until it is unlocked. Give what you sign in with.</p>
          {hasPasskeys() && (
            <Button icon="key" onClick={() => void passkeyAnswer().then(unlock).catch(failed)}>
              Use a passkey
            </Button>
          )}
        </>
      }
      fields={[
        { name: 'password', label: 'Password', type: 'password', required: true },
        { name: 'code', label: 'Code of your authenticator app', hint: 'If you have one.' },
      ]}
      onClose={() => unlockRequest.get()?.done(false)}
      onSubmit={async ({ password, code }) => {
        try {
          await unlock({ password, ...(code && { code }) })
        } catch (error) {
          if (error instanceof ApiError && error.error === 'mfa_required') throw new Error('A code is needed too.')
          throw error
        }
      }}
    />
  )
}

async function unlock(proof: object): Promise<void> {
  await svc.request('POST', '/api/admin/unlock', { body: { ...proof } })
  toast('Unlocked for ten minutes')
  unlockRequest.get()?.done(true)
}
