import { ApiError, send } from './api.ts'
import type { SecondFactorPending } from './api-types.ts'
import { buttons, type Child, el, soft } from './dom.ts'
import { button } from './form.ts'
import { session } from './session.ts'
import { showSecondFactor } from './sign-in.ts'

function openDialog(label: string, oncancel: () => void, ...children: Child[]): HTMLDialogElement {
  const dialog = el('dialog', { 'aria-label': label, oncancel }, ...children)
  document.body.append(dialog)
  dialog.showModal()
  return dialog
}

/** Asks in a dialog; resolves to true if the user confirms. */
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

/** Runs `work`; if the server requires a second factor, the user proves one and `work` runs again. */
export async function withSecondFactor<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof ApiError) || !error.aal) throw error
  }
  await stepUp()
  return work()
}

async function stepUp(): Promise<void> {
  const { refreshToken } = session
  const { mfa_token } = await session.call<Pick<SecondFactorPending, 'mfa_token'>>('POST', '/api/auth/mfa/step-up')
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
      soft('This needs your second factor.'),
      container,
      buttons(button('Cancel', cancel)),
    )
    const onSignedIn = () => {
      dialog.remove()
      // Ends the previous session; if that fails, it expires.
      send('POST', '/api/auth/logout', { body: { refreshToken } }).catch(() => {})
      resolve()
    }
    showSecondFactor({ container, onSignedIn }, mfa_token).catch((error: unknown) => {
      dialog.remove()
      reject(error)
    })
  })
}
