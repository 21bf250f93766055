/**
 * The sections of the authenticator app and of backup codes. Text for browsers, as src/http/html/dom-script.ts. Offers
 * `factorsSection`, `backupSection` and `refreshFactors`.
 */
export const factorsScript = `
let refreshFactors = async () => {}
let hasFactor = false

async function factorsSection() {
  const list = el('ul')
  const adding = el('div')
  const fill = async () => {
    const { factors, webauthn } = await session.call('GET', '/api/auth/mfa/factors')
    hasFactor = factors.length + webauthn > 0
    list.replaceChildren(...factors.map(({ label, phone, email }) =>
      el('li', null, el('div', null, label + (phone || email ? ' to ' + (phone || email) : '')), 'On')))
    const hasApp = factors.some(({ method }) => method === 'totp')
    const offersApp = !hasApp && document.body.dataset.totp === 'on'
    adding.replaceChildren(...(offersApp
      ? [el('div', { class: 'buttons' }, button('Add an authenticator app', enroll, ''))]
      : []))
  }

  const enroll = async () => {
    const { uri, secret } = await strongly(() => session.call('POST', '/api/auth/mfa/totp/enroll'))
    const image = qrImage(uri, 'QR image for your authenticator app')
    show(adding, form(
      async ({ code }) => {
        await strongly(() => session.call('POST', '/api/auth/mfa/totp/enroll/confirm', { code }))
        await fill()
      },
      el('p', null, 'Scan this with your authenticator app, then enter the code it shows.'),
      ...(image ? [image] : []),
      el('p', { class: 'soft' }, 'Or type this key into the app: ', el('code', null, secret)),
      field('Code', { name: 'code', autocomplete: 'one-time-code', inputmode: 'numeric', required: true }),
      el('div', { class: 'buttons' }, el('button', null, 'Confirm'), button('Cancel', fill)),
    ))
  }

  refreshFactors = fill
  await fill()
  return el('section', null,
    el('h2', null, 'Second factors'),
    el('p', { class: 'soft' }, 'Asked for after your password.'),
    list,
    el('p', { role: 'alert' }),
    adding,
  )
}

async function backupSection() {
  const shown = el('div')
  const left = el('p', { class: 'soft' })
  const count = async () => {
    const { remaining } = await session.call('GET', '/api/auth/mfa/backup/count')
    left.textContent = remaining === 0
      ? 'For the day your phone is lost: ten codes, each good once.'
      : remaining + ' of your codes are left.'
    return remaining
  }

  const generate = async () => {
    if (!hasFactor) throw new Error('Add a passkey or an authenticator app first: backup codes go with them.')
    const remaining = await count()
    const question = 'New codes replace the ' + remaining + ' you have. Go on?'
    if (remaining > 0 && !(await confirmed(question, 'Replace codes'))) return
    const { codes } = await strongly(() => session.call('POST', '/api/auth/mfa/backup/generate'))
    const text = codes.join('\\n') + '\\n'
    const said = el('p', { role: 'status' })
    show(shown,
      el('p', null, 'Keep these somewhere safe. They are shown only now.'),
      el('pre', { tabindex: '0', 'aria-label': 'Your backup codes' }, codes.join('\\n')),
      el('div', { class: 'buttons' },
        button('Copy', async () => {
          await navigator.clipboard.writeText(text)
          said.textContent = 'Copied.'
        }),
        button('Download', () => {
          const address = URL.createObjectURL(new Blob([text], { type: 'text/plain' }))
          el('a', { href: address, download: 'backup-codes.txt' }).click()
          setTimeout(() => URL.revokeObjectURL(address), 1000)
        }),
        button('Done', () => shown.replaceChildren()),
      ),
      said,
    )
    shown.querySelector('pre').focus()
    await count()
  }

  await count()
  return el('section', null,
    el('h2', null, 'Lost your phone?'),
    left,
    el('p', { role: 'alert' }),
    el('div', { class: 'buttons' }, button('Backup codes', generate, '')),
    shown,
  )
}
`
