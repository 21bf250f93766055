import { send } from './shared/api.ts'
import { alertLine, buttons, el, find, pageData, show, soft } from './shared/dom.ts'
import { form, submit } from './shared/form.ts'

// The page of a logout: asks where the session was not named, and says that it has ended.

const main = find('main')
const { app, formToken, user, problem } = pageData<'logout'>()
if (problem !== '') show(main, el('h1', {}, 'You cannot be signed out here'), alertLine(problem))
else if (formToken !== '') ask()
else showSignedOut()

function ask(): void {
  show(
    main,
    el('h1', {}, `Sign out of ${app}?`),
    el('p', {}, 'Signed in as ', el('strong', {}, user || 'you'), '.'),
    form(signOut, buttons(submit('Sign out'))),
    soft('To stay signed in, close this page.'),
  )
}

async function signOut(): Promise<void> {
  const body = { form_token: formToken }
  const { redirect_to } = await send<{ redirect_to: string | null }>('POST', '/oauth/logout/confirm', { body })
  showSignedOut()
  // The target comes only from the server's response.
  if (redirect_to !== null) location.replace(redirect_to)
}

function showSignedOut(): void {
  show(main, el('h1', {}, 'You are signed out'), soft('You can close this page.'))
}
