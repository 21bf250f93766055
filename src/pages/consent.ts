import { grantOf } from '../core/scope.ts'
import { withSecondFactor } from './shared/confirm.ts'
import { alertLine, buttons, el, find, pageData, show, soft } from './shared/dom.ts'
import { button, form, messageOf, submit } from './shared/form.ts'
import { session } from './shared/session.ts'
import { showSignIn } from './shared/sign-in.ts'

// The consent page of the OAuth server: sign in, then approve or deny.

type ConsentRequest = { requires_consent: true; client_name: string; redirect_uri: string } & Terms
type Terms = { scope: string; allowed_tables?: string[] }
type Redirect = { requires_consent: false; redirect_to: string }

const main = find('main')
const container = el('div')
show(
  main,
  el('h1', {}, `Sign in to ${pageData<'consent'>().app}`),
  soft('An application asks for access to your data. Sign in to see what it wants.'),
  container,
)
showSignIn({ container, onSignedIn: requestConsent })

async function requestConsent(): Promise<void> {
  try {
    const answer = await withSecondFactor(() =>
      session.call<ConsentRequest | Redirect>('GET', `/api/auth/authorize${location.search}`),
    )
    if (answer.requires_consent) showConsent(answer)
    else redirect(answer)
  } catch (error) {
    show(main, el('h1', {}, 'This request cannot be granted'), alertLine(messageOf(error)))
  }
}

function showConsent(consent: ConsentRequest): void {
  const user = el('strong', {}, session.user.email || 'you')
  const client = el('strong', {}, consent.client_name)
  const deny = button('Deny', () => decide(consent, 'deny'))
  show(
    main,
    el('h1', {}, `${consent.client_name} asks for access`),
    el('p', {}, 'Signed in as ', user, '. If you approve, ', client, ' may:'),
    el('ul', {}, ...termsOf(consent).map((term) => el('li', {}, term))),
    soft(`You will be sent to ${new URL(consent.redirect_uri).host}.`),
    form(() => decide(consent, 'approve'), buttons(submit('Approve'), deny)),
  )
}

function termsOf({ scope, allowed_tables: tables = [] }: Terms): string[] {
  const { scope: data, files } = grantOf(scope, tables, null)
  const actions = [...(files.read ? ['read'] : []), ...(files.write ? ['upload, replace and delete'] : [])]
  return [
    data === 'readonly' ? 'read data as you' : 'read and change data as you',
    tables.length > 0 ? `in these tables only: ${tables.join(', ')}` : 'in all tables that you can reach',
    actions.length > 0 ? `${actions.join(', ')} files as you` : 'not reach your files',
    'until you change your password or end the access on your account page',
  ]
}

async function decide({ requires_consent, client_name, ...request }: ConsentRequest, decision: 'approve' | 'deny') {
  const body = { ...request, response_type: 'code', decision }
  redirect(await withSecondFactor(() => session.call<Redirect>('POST', '/api/auth/authorize/consent', body)))
}

/** The target comes only from the server's response. */
function redirect({ redirect_to }: Redirect): void {
  show(main, el('h1', {}, 'Going back …'), soft('You can close this page if nothing happens.'))
  location.replace(redirect_to)
}
