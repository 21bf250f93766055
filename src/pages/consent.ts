import { grantOf } from '../core/scope.ts'
import { withSecondFactor } from './shared/confirm.ts'
import { alertLine, buttons, el, find, pageData, show, soft } from './shared/dom.ts'
import { button, form, messageOf, submit } from './shared/form.ts'
import { session } from './shared/session.ts'
import { showSignIn } from './shared/sign-in.ts'

// The consent page of the OAuth server: sign in, then approve or deny.

type ConsentRequest = {
  requires_consent: true
  client_name: string
  client_host?: string
  redirect_uri: string
} & Terms
type Terms = { scope: string; allowed_tables?: string[]; resource?: string }
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
  const isAgent = consent.resource !== undefined
  show(
    main,
    el('h1', {}, `${consent.client_name} asks for access`),
    el('p', {}, 'Signed in as ', user, '. If you approve, ', client, ' may:'),
    el('ul', {}, ...termsOf(consent).map((term) => el('li', {}, term))),
    consent.client_host !== undefined &&
      soft(`It says what it is at ${consent.client_host}; the name is its own choice.`),
    soft(`You will be sent to ${placeOf(consent.redirect_uri)}.`),
    form(
      (values) => decide(consent, 'approve', isAgent ? chosen(values) : {}),
      ...(isAgent ? agentChoices(consent) : []),
      buttons(submit('Approve'), deny),
    ),
  )
}

/** An application's own scheme has no host that says anything. */
function placeOf(uri: string): string {
  const { protocol, host } = new URL(uri)
  return protocol === 'https:' || protocol === 'http:' ? host : `the application that opens ${protocol}`
}

/** What only the user can choose: how an agent writes, and until when. */
function agentChoices({ scope }: Terms): HTMLElement[] {
  const way = (value: string, label: string, isFirst = false) =>
    el('label', {}, el('input', { type: 'radio', name: 'way', value, checked: isFirst }), label)
  const ways = scope.startsWith('readonly')
    ? []
    : [
        way('steps', 'It shows what a write would change before it does it', true),
        way('auto', 'It may write at once, up to this many rows an hour:'),
        el(
          'label',
          {},
          'Rows an hour',
          el('input', { type: 'number', name: 'auto', min: '1', max: '100', value: '10' }),
        ),
        way('release', 'Every write waits until I release it on my account page'),
      ]
  return [...ways, el('label', {}, 'Until (empty: no end)', el('input', { type: 'datetime-local', name: 'until' }))]
}

function chosen({ way, auto = '', until = '' }: Readonly<Record<string, string>>): object {
  return {
    ...(way === 'auto' && { auto: Number(auto) }),
    ...(way === 'release' && { release: true }),
    ...(until !== '' && { until: new Date(until).toJSON() }),
  }
}

function termsOf({ scope, allowed_tables: tables = [], resource }: Terms): string[] {
  const { scope: data, files } = grantOf(scope, tables, null)
  const where = tables.length > 0 ? `in these tables only: ${tables.join(', ')}` : 'in all tables that you can reach'
  if (resource !== undefined) {
    return [
      data === 'readonly' ? 'read data as you, and write nothing' : 'read and change data as you, as an agent',
      where,
      'not reach your files, and nothing but its own tools',
      'until the time below, or until you end the access on your account page',
    ]
  }
  const actions = [...(files.read ? ['read'] : []), ...(files.write ? ['upload, replace and delete'] : [])]
  return [
    data === 'readonly' ? 'read data as you' : 'read and change data as you',
    where,
    actions.length > 0 ? `${actions.join(', ')} files as you` : 'not reach your files',
    'until you change your password or end the access on your account page',
  ]
}

async function decide(
  { requires_consent, client_name, client_host, ...request }: ConsentRequest,
  decision: 'approve' | 'deny',
  terms: object = {},
) {
  const body = { ...request, ...terms, response_type: 'code', decision }
  redirect(await withSecondFactor(() => session.call<Redirect>('POST', '/api/auth/authorize/consent', body)))
}

/** The target comes only from the server's response. */
function redirect({ redirect_to }: Redirect): void {
  show(main, el('h1', {}, 'Going back …'), soft('You can close this page if nothing happens.'))
  location.replace(redirect_to)
}
