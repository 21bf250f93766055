/**
 * The account page itself: sign in, then one section per thing. Text for browsers, as src/http/html/dom-script.ts. Uses the
 * sections of the other scripts of this folder, which use `strongly`, `confirmed` and `when` of this one.
 */
export const accountScript = `
const place = document.getElementById('place')

const when = (time) => new Date(time).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })

/** A question in a dialog; resolves to whether the answer was yes. */
function confirmed(question, yes) {
  return new Promise((resolve) => {
    const close = (answer) => () => {
      dialog.remove()
      resolve(answer)
    }
    const dialog = el('dialog', { 'aria-label': yes, oncancel: close(false) },
      el('p', null, question),
      el('div', { class: 'buttons' }, button(yes, close(true), 'danger'), button('Cancel', close(false))),
    )
    document.body.append(dialog)
    dialog.showModal()
  })
}

/** Work that may need a second factor: asks for it when the server does, and tries again. */
async function strongly(work) {
  try {
    return await work()
  } catch (error) {
    if (!error.data || !error.data.aal) throw error
  }
  await signInAgain()
  return work()
}

function signInAgain() {
  const old = session.tokens
  return new Promise((resolve, reject) => {
    const inside = el('div')
    const dialog = el('dialog', {
      'aria-label': 'Confirm that it is you',
      oncancel: () => {
        dialog.remove()
        reject(new Error('Nothing was changed.'))
      },
    },
      el('h2', null, 'Confirm that it is you'),
      el('p', { class: 'soft' }, 'This needs your password and your second factor.'),
      inside,
      el('div', { class: 'buttons' }, button('Cancel', () => dialog.dispatchEvent(new Event('cancel')))),
    )
    document.body.append(dialog)
    dialog.showModal()
    showSignIn(inside, () => {
      dialog.remove()
      // The session of before has no use any more.
      void send('POST', '/api/auth/logout', { body: { refreshToken: old.refreshToken } }).catch(() => {})
      resolve()
    }, session.user.email)
  })
}

async function sessionsSection() {
  const list = el('ul')
  const fill = async () => {
    const open = await session.call('GET', '/api/auth/sessions')
    list.replaceChildren(...open.map((one) => el('li', null,
      el('div', null,
        el('div', null, deviceName(one.user_agent) + (one.current ? ' (this one)' : '')),
        el('div', { class: 'soft' }, one.ip_address + ', last active ' + when(one.last_active_at)),
      ),
      ...(one.current ? [] : [button('End', async () => {
        await session.call('DELETE', '/api/auth/sessions/' + one.id)
        await fill()
      })]),
    )))
  }
  await fill()
  return el('section', null,
    el('h2', null, 'Sessions'),
    list,
    el('p', { role: 'alert' }),
    el('div', { class: 'buttons' }, button('End all other sessions', async () => {
      await session.call('DELETE', '/api/auth/sessions?all_except_current=true')
      await fill()
    })),
  )
}

/** What people call a browser, from what it calls itself. */
function deviceName(agent) {
  const find = (names) => (names.find(([mark]) => agent.includes(mark)) || [])[1]
  const browser = find([['Edg/', 'Edge'], ['OPR/', 'Opera'], ['Firefox/', 'Firefox'], ['Chrome/', 'Chrome'], ['Safari/', 'Safari']])
  const system = find([
    ['Android', 'Android'], ['iPhone', 'iPhone'], ['iPad', 'iPad'], ['Windows', 'Windows'], ['Mac OS', 'Mac'], ['Linux', 'Linux'],
  ])
  return [browser, system].filter(Boolean).join(' on ') || agent.slice(0, 60) || 'Unknown device'
}

function passwordSection() {
  const said = el('p', { role: 'status' })
  const length = document.body.dataset.passwordLength
  const change = form(
    async (typed) => {
      said.textContent = ''
      await strongly(async () => session.open(await session.call('POST', '/api/auth/password-change', typed)))
      change.reset()
      said.textContent = 'Your password is changed, and all other sessions are over.'
    },
    field('Current password', { type: 'password', name: 'current_password', autocomplete: 'current-password', required: true }),
    field('New password', { type: 'password', name: 'password', autocomplete: 'new-password', required: true, minlength: length }),
    el('div', { class: 'buttons' }, el('button', null, 'Change password')),
  )
  return el('section', null, el('h2', null, 'Password'), change, said)
}

function deletionSection() {
  return el('section', null,
    el('h2', null, 'Delete account'),
    el('p', { class: 'soft' }, 'The account and everything that belongs to it is gone for good.'),
    el('p', { role: 'alert' }),
    el('div', { class: 'buttons' }, button('Delete account', async () => {
      if (!(await confirmed('Delete the account of ' + session.user.email + ' for good?', 'Delete for good'))) return
      await session.call('DELETE', '/api/auth/me')
      session.end()
    }, 'danger')),
  )
}

async function showAccount() {
  document.body.className = ''
  const isUnverified = session.user.email !== '' && !session.user.emailVerified
  const unverified = el('p', { class: 'soft', role: 'status' }, 'This address is not verified yet. Look for our mail.')
  const greeting = el('section', null,
    el('h2', null, session.user.email || session.user.phone || 'Signed in'),
    ...(isUnverified ? [unverified] : []),
    el('p', { role: 'alert' }),
    el('div', { class: 'buttons' },
      button('Sign out', () => session.signOut()),
      ...(isUnverified ? [button('Send the mail again', async () => {
        await session.call('POST', '/api/auth/verify/resend')
        unverified.textContent = 'A new mail is on its way. Open the link in it.'
      })] : []),
    ),
  )
  place.replaceChildren(greeting, ...(await Promise.all([
    passkeysSection(), factorsSection(), backupSection(), sessionsSection(),
  ])), passwordSection(), deletionSection())
  focusOn(greeting.querySelector('h2'))
}

function begin() {
  document.body.className = 'narrow'
  const inside = el('section')
  place.replaceChildren(inside)
  showSignIn(inside, showAccount)
}

session.onEnd = begin
begin()
`
