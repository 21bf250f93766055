import { domScript } from './dom-script.ts'
import { passkeyScript } from './passkey-script.ts'
import { sessionScript } from './session-script.ts'

/** Text for browsers, as dom-script.ts. Offers `showSignIn`. */
const formScript = `
/**
 * Asks in place who is there: password or passkey, then a second factor if the account has one. Ends with an open
 * session and a call of signedIn. A body with data-passkeys="off" offers no passkeys; nor does "again", which asks
 * somebody for both factors once more and knows the address: a passkey alone is aal1.
 */
function showSignIn(place, signedIn, again) {
  const email = field('Email', {
    type: 'email', name: 'email', autocomplete: 'username', required: true, value: again, readonly: again !== undefined,
  })
  const password = field('Password', {
    type: 'password', name: 'password', autocomplete: 'current-password', required: true,
  })
  const go = (answer) => {
    if (answer.mfa_pending) return showSecondFactor(place, answer.mfa_token, signedIn, again)
    session.open(answer)
    return signedIn()
  }
  const withPasskey = async () => {
    const typed = email.querySelector('input').value.trim()
    const way = '/api/auth/webauthn/login' + (typed === '' ? '/discover' : '')
    const { challenge_id, options } = await send('POST', way + '/begin', typed === '' ? {} : { body: { email: typed } })
    const assertion_response = await passkeys.get(options)
    return go(await send('POST', way + '/finish', { body: { challenge_id, assertion_response } }))
  }
  const said = el('p', { role: 'status' })
  const forgot = async () => {
    const input = email.querySelector('input')
    if (!input.reportValidity()) return
    await send('POST', '/api/auth/password-reset', { body: { email: input.value } })
    said.textContent = 'If there is an account with this address, a mail is on its way.'
  }
  const offersPasskeys = again === undefined && passkeys.supported && document.body.dataset.passkeys !== 'off'
  show(place, form(
    async (typed) => go(await send('POST', '/api/auth/login', { body: typed })),
    email,
    password,
    el('div', { class: 'buttons' },
      el('button', null, 'Sign in'),
      ...(offersPasskeys ? [button('Sign in with a passkey', withPasskey)] : []),
      ...(again === undefined ? [button('Forgot your password?', forgot, 'quiet')] : []),
    ),
    said,
  ))
}

/** Any of the account's second factors; the one at hand first, the others a button away. */
async function showSecondFactor(place, bearer, signedIn, again) {
  const call = (path, body) => send('POST', '/api/auth/mfa/' + path, { bearer, body })
  const { factors, webauthn, backup_codes } = await send('GET', '/api/auth/mfa/factors', { bearer })
  const finish = (answer) => {
    session.open(answer)
    return signedIn()
  }

  const askCode = (title, hint, method, props) => async () => {
    const challenge = method === 'backup' ? {} : await call(method + '/challenge')
    present(title, form(
      async ({ code }) => finish(await call(method + '/verify', { ...challenge, code })),
      el('p', { class: 'soft' }, hint),
      field('Code', { name: 'code', autocomplete: 'one-time-code', required: true, ...props }),
      el('div', { class: 'buttons' }, el('button', null, 'Continue')),
    ))
  }
  const digits = { inputmode: 'numeric' }
  const ways = factors.map(({ method, label, phone, email }) => ({
    title: label,
    open: askCode(
      label,
      method === 'totp' ? 'Enter the code your authenticator app shows.' : 'We sent a code to ' + (phone || email) + '.',
      method,
      digits,
    ),
  }))
  if (webauthn > 0 && passkeys.supported) {
    ways.unshift({
      title: 'Passkey',
      open: async () => present('Passkey', form(
        async () => {
          const { challenge_id, options } = await call('webauthn/challenge')
          finish(await call('webauthn/verify', { challenge_id, assertion_response: await passkeys.get(options) }))
        },
        el('p', { class: 'soft' }, 'Your device will ask for your fingerprint, face, PIN or security key.'),
        el('div', { class: 'buttons' }, el('button', null, 'Use a passkey')),
      )),
    })
  }
  if (backup_codes > 0) {
    ways.push({
      title: 'Backup code',
      open: askCode('Backup code', 'Enter one of the codes you kept. It works once.', 'backup', { autocapitalize: 'none' }),
    })
  }

  function present(title, answer) {
    const others = ways.filter((way) => way.title !== title)
    show(
      place,
      el('h2', null, 'Second step: ' + title),
      answer,
      ...(others.length > 0 ? [el('p', { class: 'soft' }, 'Or use another way:')] : []),
      el('div', { class: 'buttons' },
        ...others.map((way) => button(way.title, way.open)),
        button('Start again', () => showSignIn(place, signedIn, again)),
      ),
    )
  }
  await ways[0].open()
}
`

/** All that a page needs to know who is there: give these to `htmlDocument`, then a script that calls `showSignIn`. */
export const signInScripts: readonly string[] = [domScript, sessionScript, passkeyScript, formScript]
