import { alertLine, buttons, el, section } from '../shared/dom.ts'
import { button } from '../shared/form.ts'
import { session } from '../shared/session.ts'
import { deviceName } from './device-name.ts'
import { formatTime, type Section } from './section.ts'

type OpenSession = { id: string; user_agent: string; ip_address: string; last_active_at: string; current: boolean }

const PATH = '/api/auth/sessions'

export function sessionsSection(): Section {
  const list = el('ul')

  const fill = async () => {
    list.replaceChildren(...(await session.call<OpenSession[]>('GET', PATH)).map(item))
  }
  const item = (one: OpenSession) => {
    const name = deviceName(one.user_agent) + (one.current ? ' (this one)' : '')
    const activity = `${one.ip_address}, last active ${formatTime(one.last_active_at)}`
    return el(
      'li',
      {},
      el('div', {}, el('div', {}, name), el('div', { class: 'soft' }, activity)),
      !one.current && button('End', () => end(`/${one.id}`)),
    )
  }
  const end = async (which: string) => {
    await session.call('DELETE', PATH + which)
    await fill()
  }

  const endOthers = button('End all other sessions', () => end('?all_except_current=true'))
  return { node: section('Sessions', list, alertLine(), buttons(endOthers)), fill }
}
