import { ApiError, send } from '../shared/api.ts'
import { buttons, type Child, el, soft } from '../shared/dom.ts'
import { button } from '../shared/form.ts'
import { session } from '../shared/session.ts'
import { showSignIn } from '../shared/sign-in.ts'

function openDialog(label: string, oncancel: () => void, ...children: Child[]): HTMLDialogElement {
  const dialog = el('dialog', { 'aria-label': label, oncancel }, ...children)
  document.body.append(dialog)
  dialog.showModal()
  return dialog
}

/** A question in a dialog; resolves to whether the answer was yes. */
export function confirmed(question: string, yes: string): Promise<boolean> {
  return new Promise((resolve) => {
    const close = (answer: boolean) => () => {
      dialog.remove()
      resolve(answer)
    }
    const choices = buttons(button(yes, close(true), 'danger'), button('Cancel', close(false)))
    const dialog = openDialog(yes, close(false), el('p', {}, question), choices)
  })
}

/** Work that may need a second factor: asks for it when the server does, and tries again. */
export async function withSecondFactor<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof ApiError) || !error.aal) throw error
  }
  await signInAgain()
  return work()
}

function signInAgain(): Promise<void> {
  const { refreshToken, user } = session
  return new Promise((resolve, reject) => {
    const container = el('div')
    const cancel = () => {
      dialog.remove()
      reject(new Error('Nothing was changed.'))
    }
    const dialog = openDialog(
      'Confirm that it is you',
      cancel,
      el('h2', {}, 'Confirm that it is you'),
      soft('This needs your password and your second factor.'),
      container,
      buttons(button('Cancel', cancel)),
    )
    const onSignedIn = () => {
      dialog.remove()
      // The session of before has no use any more; if it cannot be ended now, it expires.
      send('POST', '/api/auth/logout', { body: { refreshToken } }).catch(() => {})
      resolve()
    }
    showSignIn({ container, onSignedIn, reauthEmail: user.email })
  })
}
