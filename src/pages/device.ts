import { withSecondFactor } from './shared/confirm.ts'
import { buttons, el, find, pageData, show, soft } from './shared/dom.ts'
import { button, field, form, submit } from './shared/form.ts'
import { session } from './shared/session.ts'
import { showSignIn } from './shared/sign-in.ts'
import { type RequestedTerms, termsInWords } from './shared/terms.ts'

// The page of the device grant: sign in, type the code, see who asks for what, then approve or deny.

type DeviceRequest = RequestedTerms & { client_name: string }

const main = find('main')
const { app, userCode } = pageData<'device'>()
const container = el('div')
show(
  main,
  el('h1', {}, `Sign in to ${app}`),
  soft('A device asks for access to your data. Sign in to connect it.'),
  container,
)
showSignIn({ container, onSignedIn: askForCode })

function askForCode(): void {
  show(
    main,
    el('h1', {}, 'Connect a device'),
    form(
      async ({ code = '' }) => showRequest(code, await session.call('GET', `/api/oauth/device?${query(code)}`)),
      field('Code that the device shows', {
        name: 'code',
        value: userCode,
        required: true,
        autocomplete: 'off',
        autocapitalize: 'characters',
        spellcheck: 'false',
      }),
      buttons(submit('Continue')),
    ),
  )
}

const query = (code: string) => new URLSearchParams({ user_code: code })

function showRequest(code: string, request: DeviceRequest): void {
  const user = el('strong', {}, session.user.email || 'you')
  const client = el('strong', {}, request.client_name)
  const decide = async (decision: 'approve' | 'deny') => {
    await withSecondFactor(() => session.call('POST', '/api/oauth/device', { user_code: code, decision }))
    showDone(decision)
  }
  show(
    main,
    el('h1', {}, `${request.client_name} asks for access`),
    el('p', {}, 'Signed in as ', user, '. If you approve, ', client, ' may:'),
    el('ul', {}, ...termsInWords(request).map((term) => el('li', {}, term))),
    soft(`Approve only if your own device shows the code ${code.toUpperCase()} now.`),
    form(
      () => decide('approve'),
      buttons(
        submit('Approve'),
        button('Deny', () => decide('deny')),
      ),
    ),
  )
}

function showDone(decision: 'approve' | 'deny'): void {
  const isApproved = decision === 'approve'
  show(
    main,
    el('h1', {}, isApproved ? 'The device is connected' : 'The device was refused'),
    soft(isApproved ? 'Go back to it; you can close this page.' : 'It got no access; you can close this page.'),
  )
}
