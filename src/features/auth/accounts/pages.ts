import { createHash } from 'node:crypto'
import { type Reply, type Route, route } from '../../../http/route.ts'

type Page = { title: string; post: string; button: string; done: string; asksPassword?: true; returnsTo?: string }

const style = `body{font:16px/1.5 system-ui,sans-serif;color:#222;margin:15vh auto;max-width:24rem;padding:0 1rem}
h1{font-size:1.4rem}input,button{font:inherit;width:100%;box-sizing:border-box;padding:.6rem;margin:.4rem 0}
button{background:#222;color:#fff;border:0;border-radius:6px;cursor:pointer}button:disabled{opacity:.5}`

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

const sourceHash = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

const headers = {
  'Content-Type': 'text/html; charset=utf-8',
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'Content-Security-Policy': [
    "default-src 'none'",
    `script-src ${sourceHash(script)}`,
    `style-src ${sourceHash(style)}`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
}

/** Where links in mails lead while the operator has no pages of their own. */
export function pageRoutes(config: { oauth_redirect_url: string; min_password_length: number }): Route[] {
  const serve = (page: Page) => {
    const reply: Reply = { status: 200, headers, content: html(page, config.min_password_length) }
    return { auth: 'none' as const, handle: async () => reply }
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

function html(page: Page, minPassword: number): string {
  const password = `<label>New password<input type="password" name="password" autocomplete="new-password" required minlength="${minPassword}"></label>`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${page.title}</title>
<style>${style}</style>
</head>
<body data-post="${page.post}" data-done="${page.done}" data-returns-to="${attribute(page.returnsTo ?? '')}">
<h1>${page.title}</h1>
<form>${page.asksPassword ? password : ''}<button>${page.button}</button></form>
<p role="status" aria-live="polite"></p>
<noscript><p>This page needs JavaScript.</p></noscript>
<script>${script}</script>
</body>
</html>
`
}

const attribute = (text: string): string => text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`)
