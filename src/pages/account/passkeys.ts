import { confirmed, withSecondFactor } from '../shared/confirm.ts'
import { alertLine, buttons, el, pageData, replace, section, soft } from '../shared/dom.ts'
import { button, form, labelled, submit } from '../shared/form.ts'
import { type CreationOptions, createPasskey, hasPasskeys } from '../shared/passkeys.ts'
import { session } from '../shared/session.ts'
import { deviceName } from './device-name.ts'
import { formatTime, type Section } from './section.ts'

type Credential = { credential_id: string; display_name: string; created_at: string; last_used_at: string | null }

const PATH = '/api/auth/mfa/webauthn'

export function passkeysSection(onChange: () => Promise<void>): Section {
  const mayAdd = hasPasskeys && pageData<'account'>().passkeys === 'on'
  const list = el('ul')
  const actions = buttons()

  const fill = async () => {
    const { credentials } = await session.call<{ credentials: Credential[] }>('GET', `${PATH}/credentials`)
    list.replaceChildren(...credentials.map((one) => item(one, credentials.length > 1)))
    replace(
      actions,
      mayAdd && button('Add a passkey', add, 'main'),
      credentials.length > 0 && button('Remove all passkeys', removeAll, 'danger'),
    )
    node.hidden = !mayAdd && credentials.length === 0
  }

  const item = (one: Credential, hasOthers: boolean): HTMLLIElement => {
    const name = one.display_name || 'Passkey'
    const used = one.last_used_at ? `last used ${formatTime(one.last_used_at)}` : 'not used yet'
    const renameButton = button('Rename', () => rename(one, node))
    const deleteButton = button('Delete', () => remove(one, hasOthers), 'danger')
    for (const it of [renameButton, deleteButton]) it.setAttribute('aria-label', `${it.textContent} ${name}`)
    const node: HTMLLIElement = el(
      'li',
      {},
      // bdi isolates names in right-to-left scripts.
      el('div', {}, el('bdi', {}, name), el('div', { class: 'soft' }, `Added ${formatTime(one.created_at)}, ${used}`)),
      el('div', {}, renameButton, ' ', deleteButton),
    )
    return node
  }

  const add = async () => {
    await withSecondFactor(async () => {
      const options = await session.call<CreationOptions>('POST', `${PATH}/enroll`)
      const attestation_response = await createPasskey(options)
      const display_name = deviceName(navigator.userAgent)
      await session.call('POST', `${PATH}/enroll/confirm`, { display_name, attestation_response })
    })
    await onChange()
    await fill()
    actions.querySelector('button')?.focus()
  }

  const rename = (one: Credential, container: HTMLElement) => {
    const value = one.display_name
    const input = el('input', { name: 'display_name', value, maxlength: '100', required: true, autocomplete: 'off' })
    const save = async (body: object) => {
      await withSecondFactor(() => session.call('PATCH', `${PATH}/credentials/${one.credential_id}`, body))
      await fill()
    }
    replace(container, form(save, labelled('Name', input), buttons(submit('Save'), button('Cancel', fill))))
    input.select()
  }

  // Without others there is nothing to confirm, because the server refuses to delete the last passkey.
  const remove = async (one: Credential, hasOthers: boolean) => {
    const question = one.display_name ? `Delete the passkey ${one.display_name}?` : 'Delete this passkey?'
    if (hasOthers && !(await confirmed(question, 'Delete'))) return
    await withSecondFactor(() => session.call('DELETE', `${PATH}/credentials/${one.credential_id}`))
    await fill()
  }

  const removeAll = async () => {
    if (!(await confirmed('Remove all passkeys? You can then sign in without them.', 'Remove all'))) return
    await withSecondFactor(() => session.call('DELETE', PATH))
    await onChange()
    await fill()
  }

  const node = section(
    'Passkeys',
    soft('Sign in with your fingerprint, face, PIN or security key instead of a password.'),
    list,
    alertLine(),
    actions,
  )
  return { node, fill }
}
