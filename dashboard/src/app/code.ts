import { sentence, svc } from '../api/client.ts'
import { session, signedIn } from '../api/session.ts'
import { confirm } from '../parts/dialog.tsx'
import { toast } from '../parts/toast.tsx'

/** `#code=…` of `svc open`: exchanged once, and out of the address before anything else happens. */
export async function takeCode(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get('code')
  if (!code) return
  history.replaceState(history.state, '', location.pathname + location.search)
  if (session.get().token) {
    const isYes = await confirm({
      title: 'Sign in anew?',
      text: 'A link wants to sign this page in. You are signed in already; the link may be of somebody else.',
      yes: 'Replace my session',
    })
    if (!isYes) return
  }
  try {
    const { token } = await svc.core.send<{ token: string }>('POST', '/api/admin/auth', { body: { code }, token: null })
    signedIn(token)
  } catch (error) {
    toast(`The link is not good any more: ${sentence(error)}`, { bad: true })
  }
}
