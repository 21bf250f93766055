import type { Factors } from '../shared/api-types.ts'
import { withSecondFactor } from '../shared/confirm.ts'
import { alertLine, buttons, el, pageData, replace, section, show, soft } from '../shared/dom.ts'
import { button, field, form, submit } from '../shared/form.ts'
import { session } from '../shared/session.ts'
import { qrImage } from './qr.ts'
import type { Section } from './section.ts'

export function factorsSection(): Section {
  const list = el('ul')
  const adding = el('div')

  const fill = async () => {
    const { factors } = await session.call<Factors>('GET', '/api/auth/mfa/factors')
    list.replaceChildren(
      ...factors.map(({ label, phone, email }) =>
        el('li', {}, el('div', {}, phone || email ? `${label} to ${phone || email}` : label), 'On'),
      ),
    )
    const hasApp = factors.some(({ method }) => method === 'totp')
    const offersApp = !hasApp && pageData<'account'>().totp === 'on'
    replace(adding, offersApp && buttons(button('Add an authenticator app', enroll, 'main')))
  }

  const enroll = async () => {
    const { uri, secret } = await withSecondFactor(() =>
      session.call<{ uri: string; secret: string }>('POST', '/api/auth/mfa/totp/enroll'),
    )
    show(
      adding,
      form(
        async ({ code }) => {
          await withSecondFactor(() => session.call('POST', '/api/auth/mfa/totp/enroll/confirm', { code }))
          await fill()
        },
        el('p', {}, 'Scan this with your authenticator app, then enter the code it shows.'),
        qrImage(uri, 'QR image for your authenticator app') ?? false,
        soft('Or type this key into the app: ', el('code', {}, secret)),
        field('Code', { name: 'code', autocomplete: 'one-time-code', inputmode: 'numeric', required: true }),
        buttons(submit('Confirm'), button('Cancel', fill)),
      ),
    )
  }

  const node = section('Second factors', soft('Asked for after your password.'), list, alertLine(), adding)
  return { node, fill }
}
