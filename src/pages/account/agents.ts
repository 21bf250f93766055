import { withSecondFactor } from '../shared/confirm.ts'
import { alertLine, buttons, el, pageData, section, soft } from '../shared/dom.ts'
import { button } from '../shared/form.ts'
import { session } from '../shared/session.ts'
import type { Section } from './section.ts'

type Counts = Readonly<Record<string, Readonly<Record<string, number>>>>
type Waiting = { id: string; tool: string; counts: Counts }
type OwnAgent = { id: string; client_id: string; quarantined: boolean; pending: Waiting[] }
type Change = {
  table?: string
  action?: string
  key?: unknown
  changes?: Readonly<Record<string, unknown>>
  other?: true
}

const PATH = '/api/auth/agents'

/** Agents that work as the user, and what they wait for. Hidden where there are none. */
export function agentsSection(): Section {
  const list = el('ul')

  const fill = async () => {
    const agents = pageData<'account'>().agents === 'on' ? await session.call<OwnAgent[]>('GET', PATH) : []
    const shown = agents.filter(({ quarantined, pending }) => quarantined || pending.length > 0)
    list.replaceChildren(...shown.map(item))
    node.hidden = shown.length === 0
  }
  const item = ({ id, client_id, quarantined, pending }: OwnAgent) => {
    const release = async () => {
      await withSecondFactor(() => session.call('POST', `${PATH}/${id}/release`))
      await fill()
    }
    return el(
      'li',
      {},
      el(
        'div',
        {},
        el('bdi', {}, client_id),
        quarantined &&
          el('div', { class: 'soft' }, 'It has read text that others wrote. What it writes waits for you.'),
        ...pending.map(waiting),
      ),
      quarantined && button('Let it write again', release),
    )
  }
  const waiting = ({ id, tool, counts }: Waiting) => {
    const place = el('div')
    const decide = (decision: 'approve' | 'deny') => async () => {
      await withSecondFactor(() => session.call('POST', `${PATH}/pending/${id}`, { decision }))
      await fill()
    }
    // What is approved was looked at.
    const look = async () => {
      const { changes } = await session.call<{ changes: Change[] }>('GET', `${PATH}/pending/${id}`)
      place.replaceChildren(
        el('ul', {}, ...changes.map((change) => el('li', {}, el('div', {}, ...linesOf(change))))),
        buttons(button('Do it', decide('approve'), 'danger'), button('Drop it', decide('deny'))),
      )
    }
    return el('div', {}, el('div', {}, `${tool}: ${summary(counts)}`), place, buttons(button('Look at it', look)))
  }

  const node = section('Agents', soft('They work as you, and wait for your decision.'), list, alertLine())
  return { node, fill }
}

const summary = (counts: Counts): string =>
  Object.entries(counts)
    .map(([table, actions]) => {
      const some = Object.entries(actions).filter(([, count]) => count > 0)
      return `${some.map(([action, count]) => `${action} ${count}`).join(', ')} in ${table}`
    })
    .join('; ') || 'other tables'

function linesOf({ table, action, key, changes = {}, other }: Change): HTMLElement[] {
  if (other) return [el('div', {}, 'and tables that you do not see')]
  const head = el('strong', {}, `${action ?? ''} ${table ?? ''} ${key === undefined ? '' : JSON.stringify(key)}`)
  const lines = Object.entries(changes).map(([column, value]) => {
    const { old, new: now } = value as { old?: unknown; new?: unknown }
    return el('div', {}, el('bdi', {}, `${column}: ${textOf(old)} → ${textOf(now)}`))
  })
  return [head, ...lines]
}

const textOf = (value: unknown): string => (value === undefined || value === null ? '–' : JSON.stringify(value))
