import { agentsSection } from './account/agents.ts'
import { backupCodesSection } from './account/backup-codes.ts'
import { factorsSection } from './account/factors.ts'
import { grantsSection } from './account/grants.ts'
import { identitiesSection } from './account/identities.ts'
import { invitationSection } from './account/invitation.ts'
import { passkeysSection } from './account/passkeys.ts'
import { sessionsSection } from './account/sessions.ts'
import type { SignedIn } from './shared/api-types.ts'
import { confirmed, withSecondFactor } from './shared/confirm.ts'
import { alertLine, buttons, el, find, focusOn, pageData, section, soft, statusLine } from './shared/dom.ts'
import { button, form, passwordField, submit } from './shared/form.ts'
import { session } from './shared/session.ts'
import { showSignIn } from './shared/sign-in.ts'

// The account page: sign in, then one section per topic.

const container = el('div')
find('main').append(container)

session.onEnd = begin
begin()

function begin(): void {
  document.body.className = 'narrow'
  const card = el('section')
  container.replaceChildren(card)
  showSignIn({ container: card, onSignedIn: showAccount })
}

async function showAccount(): Promise<void> {
  document.body.className = ''
  const factors = factorsSection()
  const parts = [backupCodesSection(), identitiesSection(), sessionsSection(), grantsSection()]
  const sections = [agentsSection(), passkeysSection(factors.fill), factors, ...parts]
  await Promise.all(sections.map(({ fill }) => fill()))
  const greeting = greetingSection()
  const invitation = invitationSection()
  container.replaceChildren(
    greeting,
    ...(invitation ? [invitation] : []),
    ...sections.map(({ node }) => node),
    passwordSection(),
    deletionSection(),
  )
  focusOn(greeting.querySelector('h2'))
}

function greetingSection(): HTMLElement {
  const { email, emailVerified, phone } = session.user
  const isUnverified = email !== '' && !emailVerified
  const status = statusLine({ class: 'soft' }, 'This address is not verified yet. Look for our mail.')
  const sendAgain = async () => {
    await session.call('POST', '/api/auth/verify/resend')
    status.textContent = 'A new mail is on its way. Open the link in it.'
  }
  return section(
    email || phone || 'Signed in',
    isUnverified && status,
    alertLine(),
    buttons(
      button('Sign out', () => session.signOut()),
      isUnverified && button('Send the mail again', sendAgain),
    ),
  )
}

function passwordSection(): HTMLElement {
  const status = statusLine()
  const change = form(
    async (body) => {
      status.textContent = ''
      await withSecondFactor(async () =>
        session.open(await session.call<SignedIn>('POST', '/api/auth/password-change', body)),
      )
      change.reset()
      status.textContent = 'Your password is changed, and all other sessions are over.'
    },
    passwordField('Current password', { name: 'current_password', autocomplete: 'current-password' }),
    passwordField('New password', { autocomplete: 'new-password', minlength: pageData<'account'>().minPassword }),
    buttons(submit('Change password')),
  )
  return section('Password', change, status)
}

function deletionSection(): HTMLElement {
  const remove = async () => {
    if (!(await confirmed(`Delete the account of ${session.user.email} for good?`, 'Delete for good'))) return
    await withSecondFactor(() => session.call('DELETE', '/api/auth/me'))
    session.end()
  }
  return section(
    'Delete account',
    soft('The account and everything that belongs to it is gone for good.'),
    alertLine(),
    buttons(button('Delete account', remove, 'danger')),
  )
}
