import { type HtmlDocument, htmlDocument } from '../../http/html/document.ts'
import { type Route, route } from '../../http/route.ts'

type Page = { title: string; post: string; button: string; done: string; asksPassword?: true; returnsTo?: string }

// The token leaves the address bar at once, and is spent only by a press of the button: programs that open links in
// mail to look at them do not press buttons.
const script = `
const token = new URLSearchParams(location.search).get('token') || ''
history.replaceState(null, '', location.pathname)
const { post, done, returnsTo } = document.body.dataset
const form = document.querySelector('form')
const says = document.querySelector('[role=status]')
form.addEventListener('submit', async (event) => {
  event.preventDefault()
  const button = form.querySelector('button')
  const password = form.querySelector('input')
  button.disabled = true
  try {
    const response = await fetch(post, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(password ? { token, password: password.value } : { token }),
    })
    const answer = response.status === 204 ? {} : await response.json()
    if (!response.ok) {
      says.textContent = answer.message
      button.disabled = !password
      return
    }
    form.remove()
    says.textContent = done
    if (returnsTo) {
      const { user, ...fragment } = answer
      location.replace(returnsTo.split('#')[0] + '#' + new URLSearchParams(fragment))
    }
  } catch {
    says.textContent = 'The server cannot be reached. Please try again.'
    button.disabled = false
  }
})
`

/** Where links in mails lead while the operator has no pages of their own. */
export function pageRoutes(config: { oauth_redirect_url: string; min_password_length: number }): Route[] {
  const serve = (page: Page) => {
    const reply = htmlDocument(documentOf(page, config.min_password_length))
    return {
      summary: `Page behind the link of a mail: ${page.title}`,
      auth: 'none' as const,
      answers: { 200: { content: 'text/html' } },
      handle: () => reply,
    }
  }
  return [
    route(
      'GET /auth/verify',
      serve({
        title: 'Verify your email',
        post: '/api/auth/verify',
        button: 'Verify email',
        done: 'Your email is verified.',
      }),
    ),
    route(
      'GET /auth/reset',
      serve({
        title: 'Choose a new password',
        post: '/api/auth/password-reset/confirm',
        button: 'Set password',
        done: 'Your password is changed. You can sign in with it now.',
        asksPassword: true,
      }),
    ),
    route(
      'GET /auth/magic-link',
      serve({
        title: 'Sign in',
        post: '/api/auth/magic-link/confirm',
        button: 'Sign in',
        done: 'You are signed in.',
        returnsTo: config.oauth_redirect_url,
      }),
    ),
  ]
}

function documentOf(page: Page, minPassword: number): HtmlDocument {
  const password = `<label>New password<input type="password" name="password" autocomplete="new-password" required minlength="${minPassword}"></label>`
  return {
    title: page.title,
    layout: 'narrow',
    data: { post: page.post, done: page.done, 'returns-to': page.returnsTo ?? '' },
    scripts: [script],
    body: `<section>
<h1>${page.title}</h1>
<form>${page.asksPassword ? password : ''}<div class="buttons"><button>${page.button}</button></div></form>
<p role="status" aria-live="polite"></p>
</section>`,
  }
}
