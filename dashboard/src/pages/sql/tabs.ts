import { createStore, kept } from '../../parts/store.ts'

export type SqlTab = {
  id: string
  name: string
  query: string
  saved?: string | undefined
  savedQuery?: string | undefined
}
type Tabs = { tabs: readonly SqlTab[]; current: string }

let ids = 0
const fresh = (query = ''): SqlTab => ({ id: `${Date.now()}-${++ids}`, name: `Query ${ids}`, query })

function read(): Tabs {
  const found = kept.read('sql') as { tabs?: unknown; current?: unknown } | null
  const tabs = (Array.isArray(found?.tabs) ? found.tabs : []).filter(
    (tab): tab is SqlTab =>
      typeof tab?.id === 'string' && typeof tab.name === 'string' && typeof tab.query === 'string',
  )
  ids = tabs.length
  const first = tabs[0] ?? fresh('select * from ')
  return {
    tabs: tabs.length > 0 ? tabs : [first],
    current: tabs.some(({ id }) => id === found?.current) ? String(found?.current) : first.id,
  }
}

/** They stay in this browser. */
export const sqlTabs = createStore<Tabs>(read())
sqlTabs.subscribe(() => kept.write('sql', sqlTabs.get()))

export function openTab(query = '', name?: string, saved?: string): void {
  const tab = { ...fresh(query), ...(name && { name }), ...(saved && { saved, savedQuery: query }) }
  sqlTabs.set({ tabs: [...sqlTabs.get().tabs, tab], current: tab.id })
}

export function closeTab(id: string): void {
  const { tabs, current } = sqlTabs.get()
  const rest = tabs.filter((tab) => tab.id !== id)
  const left = rest.length > 0 ? rest : [fresh()]
  sqlTabs.set({ tabs: left, current: current === id ? (left.at(-1)?.id ?? '') : current })
}

export function changeTab(id: string, change: Partial<SqlTab>): void {
  const state = sqlTabs.get()
  sqlTabs.set({ ...state, tabs: state.tabs.map((tab) => (tab.id === id ? { ...tab, ...change } : tab)) })
}
