import { confirmed, withSecondFactor } from '../shared/confirm.ts'
import { alertLine, el, section, soft } from '../shared/dom.ts'
import { button } from '../shared/form.ts'
import { session } from '../shared/session.ts'
import { formatTime, type Section } from './section.ts'

type Identity = { id: string; provider: string; created_at: string; ended_at?: string }

const PATH = '/api/auth/identities'

/** Accounts elsewhere that open this one. Hidden where there are none. */
export function identitiesSection(): Section {
  const list = el('ul')

  const fill = async () => {
    const identities = await session.call<Identity[]>('GET', PATH)
    list.replaceChildren(...identities.map(item))
    node.hidden = identities.length === 0
  }
  const item = ({ id, provider, created_at, ended_at }: Identity) => {
    const remove = async () => {
      if (!(await confirmed(`Sign in by ${provider} no more?`, 'Remove'))) return
      await withSecondFactor(() => session.call('DELETE', `${PATH}/${id}`))
      await fill()
    }
    const removeButton = button('Remove', remove, 'danger')
    removeButton.setAttribute('aria-label', `Remove ${provider}`)
    const since = ended_at === undefined ? `Since ${formatTime(created_at)}` : `Ended ${formatTime(ended_at)}`
    return el('li', {}, el('div', {}, el('bdi', {}, provider), el('div', { class: 'soft' }, since)), removeButton)
  }

  const node = section('Sign-ins elsewhere', soft('Whoever signs in there is signed in here.'), list, alertLine())
  return { node, fill }
}
