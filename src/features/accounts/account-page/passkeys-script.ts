/** The section of passkeys. Text for browsers, as src/http/html/dom-script.ts. Offers `passkeysSection`. */
export const passkeysScript = `
async function passkeysSection() {
  const PATH = '/api/auth/mfa/webauthn'
  const list = el('ul')
  const all = el('div', { class: 'buttons' })
  let known = []

  const rename = (one, item) => {
    const close = () => fill()
    const naming = form(
      async ({ display_name }) => {
        await strongly(() => session.call('PATCH', PATH + '/credentials/' + one.credential_id, { display_name }))
        await close()
      },
      field('Name', { name: 'display_name', value: one.display_name, maxlength: '100', required: true, autocomplete: 'off' }),
      el('div', { class: 'buttons' }, el('button', null, 'Save'), button('Cancel', close)),
    )
    item.replaceChildren(naming)
    naming.querySelector('input').select()
  }
  const remove = async (one) => {
    const name = one.display_name || 'this passkey'
    if (known.length > 1 && !(await confirmed('Delete the passkey ' + name + '?', 'Delete'))) return
    await strongly(() => session.call('DELETE', PATH + '/credentials/' + one.credential_id))
    await fill()
  }
  const removeAll = async () => {
    const question = 'Remove all passkeys? You can then sign in without them.'
    if (!(await confirmed(question, 'Remove all'))) return
    await strongly(() => session.call('DELETE', PATH))
    await refreshFactors()
    await fill()
  }
  const add = async () => {
    const made = await strongly(async () => {
      const attestation_response = await passkeys.create(await session.call('POST', PATH + '/enroll'))
      const display_name = deviceName(navigator.userAgent)
      return session.call('POST', PATH + '/enroll/confirm', { display_name, attestation_response })
    })
    await refreshFactors()
    await fill(made.credential.credential_id)
  }

  /** Names may be written from right to left: bdi keeps that to themselves. */
  const describe = (one) => el('div', null,
    el('bdi', null, one.display_name || 'Passkey'),
    el('div', { class: 'soft' }, 'Added ' + when(one.created_at)
      + (one.last_used_at ? ', last used ' + when(one.last_used_at) : ', not used yet')),
  )
  async function fill(added) {
    known = (await session.call('GET', PATH + '/credentials')).credentials
    list.replaceChildren(...known.map((one) => {
      const name = one.display_name || 'Passkey'
      const item = el('li', null, describe(one), el('div', null,
        button('Rename', () => rename(one, item)), ' ', button('Delete', () => remove(one), 'danger'),
      ))
      for (const node of item.querySelectorAll('button')) node.setAttribute('aria-label', node.textContent + ' ' + name)
      return item
    }))
    all.replaceChildren(
      ...(mayAdd ? [button('Add a passkey', add, '')] : []),
      ...(known.length > 0 ? [button('Remove all passkeys', removeAll, 'danger')] : []),
    )
    if (added) all.querySelector('button').focus()
  }

  const mayAdd = passkeys.supported && document.body.dataset.passkeys === 'on'
  await fill()
  if (!mayAdd && known.length === 0) return ''
  return el('section', null,
    el('h2', null, 'Passkeys'),
    el('p', { class: 'soft' }, 'Sign in with your fingerprint, face, PIN or security key instead of a password.'),
    list,
    el('p', { role: 'alert' }),
    all,
  )
}
`
