import { opensData } from '../../core/scope.ts'
import { alertLine, el, pageData, section, soft } from '../shared/dom.ts'
import { button } from '../shared/form.ts'
import { session } from '../shared/session.ts'
import { readsOnly } from '../shared/terms.ts'
import { formatTime, type Section } from './section.ts'

type Grant = { id: string; client_name: string; scope: string; allowed_tables: string[]; created_at: string }

const PATH = '/api/auth/grants'

/** What other applications may do as the user. Hidden where there are none. */
export function grantsSection(): Section {
  const list = el('ul')

  const fill = async () => {
    const grants = pageData<'account'>().grants === 'on' ? await session.call<Grant[]>('GET', PATH) : []
    list.replaceChildren(...grants.map(item))
    node.hidden = grants.length === 0
  }
  const item = ({ id, client_name, scope, allowed_tables, created_at }: Grant) => {
    const end = async () => {
      await session.call('DELETE', `${PATH}/${id}`)
      await fill()
    }
    const data = readsOnly(scope) ? 'Reads your data' : 'Reads and changes your data'
    const what = opensData(scope) ? data : 'Knows who you are'
    const where = allowed_tables.length > 0 ? ` in ${allowed_tables.join(', ')}` : ''
    const endButton = button('End access', end, 'danger')
    endButton.setAttribute('aria-label', `End access of ${client_name}`)
    return el(
      'li',
      {},
      el(
        'div',
        {},
        el('bdi', {}, client_name),
        el('div', { class: 'soft' }, `${what}${where}, since ${formatTime(created_at)}`),
      ),
      endButton,
    )
  }

  const node = section('Applications', soft('They have access to your data because you agreed.'), list, alertLine())
  return { node, fill }
}
