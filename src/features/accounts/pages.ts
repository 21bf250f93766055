import { htmlDocument } from '../../http/html/document.ts'
import { type Route, route } from '../../http/route.ts'

type Page = { title: string; button: string; fields?: string; post: string; done: string; returnsTo?: string }

/** Default targets of the links in mails, if the operator has no own pages. */
export const pageRoutes = (config: { oauth_redirect_url: string; min_password_length: number }): Route[] => [
  route(
    'GET /auth/verify',
    mailLinkPage({
      title: 'Verify your email',
      button: 'Verify email',
      post: '/api/auth/verify',
      done: 'Your email is verified.',
    }),
  ),
  route(
    'GET /auth/reset',
    mailLinkPage({
      title: 'Choose a new password',
      button: 'Set password',
      fields: `<label>New password<input type="password" name="password" autocomplete="new-password" required minlength="${config.min_password_length}"></label>`,
      post: '/api/auth/password-reset/confirm',
      done: 'Your password is changed. You can sign in with it now.',
    }),
  ),
  route(
    'GET /auth/email-change',
    mailLinkPage({
      title: 'Confirm your new address',
      button: 'Use this address',
      post: '/api/auth/email-change/confirm',
      done: 'Your account has this address now.',
    }),
  ),
  route(
    'GET /auth/email-revert',
    mailLinkPage({
      title: 'Take your address back',
      button: 'Take it back',
      post: '/api/auth/email-change/revert',
      done: 'Your account has its former address again. Look for our mail and set a new password.',
    }),
  ),
  route(
    'GET /auth/magic-link',
    mailLinkPage({
      title: 'Sign in',
      button: 'Sign in',
      post: '/api/auth/magic-link/confirm',
      done: 'You are signed in.',
      returnsTo: config.oauth_redirect_url,
    }),
  ),
]

const mailLinkPage = ({ title, button, fields = '', post, done, returnsTo = '' }: Page) => ({
  summary: `Page behind the link of a mail: ${title}`,
  auth: 'none' as const,
  answers: { 200: { content: 'text/html' } },
  handle: () =>
    htmlDocument({
      page: 'mail-link',
      title,
      layout: 'narrow',
      body: `<section>
<h1>${title}</h1>
<form>${fields}<div class="buttons"><button>${button}</button></div></form>
<p role="status" aria-live="polite"></p>
</section>`,
      data: { post, done, returnsTo },
    }),
})
