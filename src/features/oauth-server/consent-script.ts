/** The consent page: sign in, then the question. Text for browsers, as src/http/html/dom-script.ts. */
export const consentScript = `
const place = document.getElementById('place')
const appName = document.body.dataset.app

const MEANINGS = {
  readonly: 'read data as you',
  readwrite: 'read and change data as you',
  '*': 'read and change data as you',
}

/** The server's own answer says where to go; nothing else decides it. */
async function decide(question, decision) {
  const { requires_consent, client_name, ...answer } = question
  const { redirect_to } = await session.call('POST', '/api/auth/authorize/consent', { ...answer, response_type: 'code', decision })
  leave(redirect_to)
}

function leave(target) {
  show(place, el('h1', null, 'Going back …'), el('p', { class: 'soft' }, 'You can close this page if nothing happens.'))
  window.location.replace(target)
}

async function ask() {
  let question
  try {
    question = await session.call('GET', '/api/auth/authorize' + window.location.search)
  } catch (error) {
    show(place, el('h1', null, 'This request cannot be granted'), el('p', { role: 'alert' }, error.message))
    return
  }
  if (!question.requires_consent) return leave(question.redirect_to)
  const tables = question.allowed_tables
  show(
    place,
    el('h1', null, question.client_name + ' asks for access'),
    el('p', null, 'Signed in as ', el('strong', null, session.user.email || 'you'), '. If you approve, ',
      el('strong', null, question.client_name), ' may:'),
    el('ul', null,
      el('li', null, MEANINGS[question.scope]),
      el('li', null, tables ? 'in these tables only: ' + tables.join(', ') : 'in all tables that you can reach'),
      el('li', null, 'until you change your password or the access is revoked'),
    ),
    el('p', { class: 'soft' }, 'You will be sent to ' + new URL(question.redirect_uri).host + '.'),
    form(
      () => decide(question, 'approve'),
      el('div', { class: 'buttons' }, el('button', null, 'Approve'), button('Deny', () => decide(question, 'deny'))),
    ),
  )
}

function begin() {
  const head = el('h1', null, 'Sign in to ' + appName)
  const inside = el('div')
  show(place, head, el('p', { class: 'soft' }, 'An application asks for access to your data. Sign in to see what it wants.'), inside)
  showSignIn(inside, ask)
}
begin()
`
