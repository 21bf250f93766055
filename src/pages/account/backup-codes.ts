import type { Factors } from '../shared/api-types.ts'
import { confirmed, withSecondFactor } from '../shared/confirm.ts'
import { alertLine, buttons, el, section, show, soft, statusLine } from '../shared/dom.ts'
import { button } from '../shared/form.ts'
import { session } from '../shared/session.ts'
import type { Section } from './section.ts'

export function backupCodesSection(): Section {
  const shown = el('div')
  const left = soft()

  const fill = async () => {
    const { remaining } = await session.call<{ remaining: number }>('GET', '/api/auth/mfa/backup/count')
    left.textContent =
      remaining === 0
        ? 'For the day your phone is lost: ten codes, each good once.'
        : `${remaining} of your codes are left.`
  }

  const generate = async () => {
    const { factors, webauthn, backup_codes } = await session.call<Factors>('GET', '/api/auth/mfa/factors')
    if (factors.length + webauthn === 0) {
      throw new Error('Add a passkey or an authenticator app first: backup codes go with them.')
    }
    const question = `New codes replace the ${backup_codes} you have. Go on?`
    if (backup_codes > 0 && !(await confirmed(question, 'Replace codes'))) return
    const { codes } = await withSecondFactor(() =>
      session.call<{ codes: string[] }>('POST', '/api/auth/mfa/backup/generate'),
    )
    showCodes(shown, codes.join('\n'))
    await fill()
  }

  const actions = buttons(button('Backup codes', generate, 'main'))
  return { node: section('Lost your phone?', left, alertLine(), actions, shown), fill }
}

function showCodes(container: HTMLElement, codes: string): void {
  const list = el('pre', { tabindex: '0', 'aria-label': 'Your backup codes' }, codes)
  const status = statusLine()
  const copy = async () => {
    await navigator.clipboard.writeText(`${codes}\n`)
    status.textContent = 'Copied.'
  }
  const download = () => {
    const href = URL.createObjectURL(new Blob([`${codes}\n`], { type: 'text/plain' }))
    el('a', { href, download: 'backup-codes.txt' }).click()
    setTimeout(() => URL.revokeObjectURL(href), 1000)
  }
  show(
    container,
    el('p', {}, 'Keep these somewhere safe. They are shown only now.'),
    list,
    buttons(
      button('Copy', copy),
      button('Download', download),
      button('Done', () => container.replaceChildren()),
    ),
    status,
  )
  list.focus()
}
