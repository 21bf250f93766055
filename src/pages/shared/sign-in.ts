import { send } from './api.ts'
import type { Factors, PasskeyRequest, SecondFactorPending, SignedIn } from './api-types.ts'
import { buttons, el, pageData, show, soft, statusLine } from './dom.ts'
import { button, field, form, labelled, passwordField, submit } from './form.ts'
import { hasPasskeys, usePasskey } from './passkeys.ts'
import { session } from './session.ts'

type SignIn = {
  container: HTMLElement
  onSignedIn: () => unknown
  /** An address to begin with. */
  email?: string
}

/** Sign-in by password or passkey, then a second factor if the account has one. Opens the session. */
export function showSignIn(signIn: SignIn): void {
  const { container } = signIn
  const email = el('input', { type: 'email', name: 'email', autocomplete: 'username', required: true })
  email.value = signIn.email ?? ''
  const withPasskey = async () => {
    const typed = email.value.trim()
    const path = `/api/auth/webauthn/login${typed === '' ? '/discover' : ''}`
    const start = typed === '' ? {} : { body: { email: typed } }
    const { challenge_id, options } = await send<PasskeyRequest>('POST', `${path}/begin`, start)
    const body = { challenge_id, assertion_response: await usePasskey(options) }
    return proceed(signIn, await send<SignedIn>('POST', `${path}/finish`, { body }))
  }
  const status = statusLine()
  const forgotPassword = async () => {
    if (!email.reportValidity()) return
    await send('POST', '/api/auth/password-reset', { body: { email: email.value } })
    status.textContent = 'If there is an account with this address, a mail is on its way.'
  }
  const offersPasskeys = hasPasskeys && pageData<'account' | 'consent' | 'device'>().passkeys === 'on'
  show(
    container,
    form(
      async (body) => proceed(signIn, await send<SignedIn | SecondFactorPending>('POST', '/api/auth/login', { body })),
      labelled('Email', email),
      passwordField('Password', { autocomplete: 'current-password' }),
      buttons(
        submit('Sign in'),
        offersPasskeys && button('Sign in with a passkey', withPasskey),
        button('Forgot your password?', forgotPassword, 'quiet'),
      ),
      status,
    ),
  )
}

function proceed(signIn: SignIn, answer: SignedIn | SecondFactorPending): unknown {
  if ('mfa_pending' in answer) return showSecondFactor(signIn, answer.mfa_token, () => showSignIn(signIn))
  session.open(answer)
  return signIn.onSignedIn()
}

/** Shows the first of the account's second factors, and buttons for the remaining ones. `startAgain`: after a first factor. */
export async function showSecondFactor(signIn: SignIn, bearer: string, startAgain?: () => void): Promise<void> {
  const call = <Answer>(path: string, body?: unknown) => send<Answer>('POST', `/api/auth/mfa/${path}`, { bearer, body })
  const { factors, webauthn, backup_codes } = await send<Factors>('GET', '/api/auth/mfa/factors', { bearer })
  const finish = async (method: string, body: object) => proceed(signIn, await call<SignedIn>(`${method}/verify`, body))

  const codeForm = (hint: string, method: string, challenge: object, props: Record<string, string>) =>
    form(
      ({ code }) => finish(method, { ...challenge, code }),
      soft(hint),
      field('Code', { name: 'code', autocomplete: 'one-time-code', required: true, ...props }),
      buttons(submit('Continue')),
    )
  const passkeyForm = () =>
    form(
      async () => {
        const { challenge_id, options } = await call<PasskeyRequest>('webauthn/challenge')
        return finish('webauthn', { challenge_id, assertion_response: await usePasskey(options) })
      },
      soft('Your device will ask for your fingerprint, face, PIN or security key.'),
      buttons(submit('Use a passkey')),
    )
  const backupForm = () =>
    codeForm('Enter one of the codes you kept. It works once.', 'backup', {}, { autocapitalize: 'none' })

  const methods = [
    ...(webauthn > 0 && hasPasskeys ? [{ title: 'Passkey', open: passkeyForm }] : []),
    ...factors.map(({ method, label, phone, email }) => {
      const hint =
        method === 'totp' ? 'Enter the code your authenticator app shows.' : `We sent a code to ${phone || email}.`
      const open = async () =>
        codeForm(hint, method, await call<object>(`${method}/challenge`), { inputmode: 'numeric' })
      return { title: label, open }
    }),
    ...(backup_codes > 0 ? [{ title: 'Backup code', open: backupForm }] : []),
  ]

  const present = async (method: (typeof methods)[number]) => {
    const answer = await method.open()
    const others = methods.filter((one) => one !== method)
    show(
      signIn.container,
      el('h2', {}, `Second step: ${method.title}`),
      answer,
      others.length > 0 && soft('Or use another way:'),
      buttons(
        ...others.map((one) => button(one.title, () => present(one))),
        startAgain !== undefined && button('Start again', startAgain),
      ),
    )
  }
  const [first] = methods
  if (!first) throw new Error('This browser cannot use your second factor.')
  await present(first)
}
