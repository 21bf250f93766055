import { ApiError, svc } from '../api/client.ts'
import { unlockRequest } from '../api/unlock.ts'
import { FormDialog } from '../parts/dialog.tsx'
import { toast } from '../parts/toast.tsx'

/** Where `admin.dashboard_locked` is on: the dashboard reads, and writes for ten minutes after this. */
export function Unlock() {
  const request = unlockRequest.use()
  if (!request) return null
  return (
    <FormDialog
      title="Unlock the dashboard"
      yes="Unlock for ten minutes"
      intro={<p>This dashboard is read-only until it is unlocked. Give what you sign in with.</p>}
      fields={[
        { name: 'password', label: 'Password', type: 'password', required: true },
        { name: 'code', label: 'Code of your authenticator app', hint: 'If you have one.' },
      ]}
      onClose={() => unlockRequest.get()?.done(false)}
      onSubmit={async ({ password, code }) => {
        try {
          await svc.request('POST', '/api/admin/unlock', { body: { password, ...(code && { code }) } })
        } catch (error) {
          if (error instanceof ApiError && error.error === 'mfa_required') throw new Error('A code is needed too.')
          throw error
        }
        toast('Unlocked for ten minutes')
        unlockRequest.get()?.done(true)
      }}
    />
  )
}
