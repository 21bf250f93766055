import { ApiError, send } from './shared/api.ts'
import { withSecondFactor } from './shared/confirm.ts'
import { alertLine, buttons, el, find, pageData, show, soft } from './shared/dom.ts'
import { button, form, messageOf, submit } from './shared/form.ts'
import { session } from './shared/session.ts'
import { showSignIn } from './shared/sign-in.ts'
import { type RequestedTerms, readsOnly, termsInWords } from './shared/terms.ts'

// The consent page of the OAuth server: sign in, then approve or deny.

type ConsentRequest = {
  requires_consent: true
  client_name: string
  client_host?: string
  redirect_uri: string
} & RequestedTerms
type Redirect = { requires_consent: false; redirect_to: string }

/** Who decides: the user of the session in memory, or of the cookie, whose answer carries the form token. */
type Decider = { email: string; decide: (request: ConsentRequest, answer: object) => Promise<Redirect> }

const main = find('main')
const data = pageData<'consent'>()
if (data.problem !== '') showProblem(data.problem)
else if (data.prompt !== '') showConsent(JSON.parse(data.prompt), byCookie())
else signIn()

function signIn(): void {
  const container = el('div')
  show(
    main,
    el('h1', {}, `Sign in to ${data.app}`),
    soft('An application asks for access to your data. Sign in to see what it wants.'),
    container,
  )
  showSignIn({ container, onSignedIn: requestConsent, email: data.login })
}

function showProblem(message: string): void {
  show(main, el('h1', {}, 'This request cannot be granted'), alertLine(message))
}

async function requestConsent(): Promise<void> {
  try {
    // Without the cookie the next application asks for a sign-in again, and that is all.
    await session.call('POST', '/oauth/session').catch(() => undefined)
    const answer = await withSecondFactor(() =>
      session.call<ConsentRequest | Redirect>('GET', `/api/auth/authorize${location.search}`),
    )
    if (answer.requires_consent) showConsent(answer, bySession)
    else redirect(answer)
  } catch (error) {
    showProblem(messageOf(error))
  }
}

const bySession: Decider = {
  get email() {
    return session.user.email
  },
  decide: ({ requires_consent, client_name, client_host, ...request }, answer) => {
    const body = { ...request, ...answer, response_type: 'code' }
    return withSecondFactor(() => session.call<Redirect>('POST', '/api/auth/authorize/consent', body))
  },
}

function byCookie(): Decider {
  return {
    email: data.user,
    decide: (_, answer) =>
      send<Redirect>('POST', '/oauth/consent', { body: { form_token: data.formToken, ...answer } }),
  }
}

function showConsent(consent: ConsentRequest, by: Decider): void {
  const user = el('strong', {}, by.email || 'you')
  const client = el('strong', {}, consent.client_name)
  const decide = async (decision: 'approve' | 'deny', terms: object = {}) => {
    try {
      redirect(await by.decide(consent, { ...terms, decision }))
    } catch (error) {
      // The session of the cookie has ended, or needs a second factor.
      if (by === bySession || !(error instanceof ApiError) || !(error.status === 401 || error.aal)) throw error
      signIn()
    }
  }
  const deny = button('Deny', () => decide('deny'))
  const isAgent = consent.resource !== undefined
  show(
    main,
    el('h1', {}, `${consent.client_name} asks for access`),
    el('p', {}, 'Signed in as ', user, '. If you approve, ', client, ' may:'),
    el('ul', {}, ...termsInWords(consent).map((term) => el('li', {}, term))),
    consent.client_host !== undefined &&
      soft(`It says what it is at ${consent.client_host}; the name is its own choice.`),
    soft(`You will be sent to ${placeOf(consent.redirect_uri)}.`),
    form(
      (values) => decide('approve', isAgent ? chosen(values) : {}),
      ...(isAgent ? agentChoices(consent) : []),
      buttons(submit('Approve'), deny, by !== bySession && button('Use another account', signIn, 'quiet')),
    ),
  )
}

/** An application's own scheme has no host that says anything. */
function placeOf(uri: string): string {
  const { protocol, host } = new URL(uri)
  return protocol === 'https:' || protocol === 'http:' ? host : `the application that opens ${protocol}`
}

/** What only the user can choose: how an agent writes, and until when. */
function agentChoices({ scope }: RequestedTerms): HTMLElement[] {
  const way = (value: string, label: string, isFirst = false) =>
    el('label', {}, el('input', { type: 'radio', name: 'way', value, checked: isFirst }), label)
  const ways = readsOnly(scope)
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
        way('read', 'It may only read'),
      ]
  return [...ways, el('label', {}, 'Until (empty: no end)', el('input', { type: 'datetime-local', name: 'until' }))]
}

function chosen({ way, auto = '', until = '' }: Readonly<Record<string, string>>): object {
  return {
    ...(way === 'auto' && { auto: Number(auto) }),
    ...(way === 'release' && { release: true }),
    ...(way === 'read' && { scope: 'readonly' }),
    ...(until !== '' && { until: new Date(until).toJSON() }),
  }
}

/** The target comes only from the server's response. */
function redirect({ redirect_to }: Redirect): void {
  show(main, el('h1', {}, 'Going back …'), soft('You can close this page if nothing happens.'))
  location.replace(redirect_to)
}
