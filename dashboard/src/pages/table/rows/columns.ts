import { quoteName, type Table } from '../../../api/schema.ts'
import type { Search } from '../../../app/navigate.tsx'
import type { GridColumn } from '../../../parts/grid/types.ts'
import { type Layout, moved, ordered } from './layout.ts'
import { kindOf, shortType, widthOf } from './values.ts'

type Direction = 'ascending' | 'descending' | ''
type Shape = {
  table: Table
  layout: Layout
  sort: string
  go(change: Search): void
  setLayout(change: Partial<Layout>): void
}

export const setSort = (go: Shape['go'], column: string, direction: Direction): void =>
  go({ sort: direction === '' ? undefined : direction === 'ascending' ? column : `-${column}`, jump: undefined })

/** The columns of a table as the person has them, each with what can be done with it. */
export function columnsOf({ table, layout, sort, go, setLayout }: Shape): GridColumn[] {
  const sorts = sort.split(',')
  const names = ordered(
    table.columns.map((column) => column.name),
    layout,
  )
  return names
    .filter((id) => !layout.hidden.includes(id))
    .flatMap((id) => {
      const column = table.columns.find((one) => one.name === id)
      if (!column) return []
      const kind = kindOf(column)
      const direction = sorts.includes(id) ? 'ascending' : sorts.includes(`-${id}`) ? 'descending' : undefined
      const isPinned = layout.pinned.includes(id)
      return [
        {
          id,
          title: id,
          type: shortType(column.type),
          width: layout.widths[id] ?? widthOf(column),
          pinned: isPinned,
          look:
            kind === 'number'
              ? 'num'
              : ['json', 'array', 'bytes', 'vector', 'place'].includes(kind) || column.type === 'uuid'
                ? 'mono'
                : '',
          ...(direction && { sort: direction as 'ascending' | 'descending' }),
          menu: () => [
            { label: 'Sort ascending', icon: 'up' as const, run: () => setSort(go, id, 'ascending') },
            { label: 'Sort descending', icon: 'down' as const, run: () => setSort(go, id, 'descending') },
            { label: 'No order', icon: 'x' as const, run: () => setSort(go, id, '') },
            '-' as const,
            {
              label: 'Only rows with a value',
              icon: 'filter' as const,
              run: () => go({ filter: `${quoteName(id)} != null` }),
            },
            '-' as const,
            {
              label: isPinned ? 'Unpin' : 'Pin',
              icon: 'pin' as const,
              run: () =>
                setLayout({
                  pinned: isPinned ? layout.pinned.filter((other) => other !== id) : [...layout.pinned, id],
                }),
            },
            {
              label: 'Move left',
              icon: 'left' as const,
              run: () => setLayout({ order: moved(names, id, names[names.indexOf(id) - 1] ?? id) }),
            },
            {
              label: 'Move right',
              icon: 'right' as const,
              run: () => setLayout({ order: moved(names, id, names[names.indexOf(id) + 2] ?? '') }),
            },
            {
              label: 'Wider',
              icon: 'plus' as const,
              run: () => setLayout({ widths: { ...layout.widths, [id]: (layout.widths[id] ?? widthOf(column)) + 80 } }),
            },
            { label: 'Hide', icon: 'eye-off' as const, run: () => setLayout({ hidden: [...layout.hidden, id] }) },
          ],
        },
      ]
    })
}
