import type { ReactNode } from 'react'

export type Cells<Item> = readonly (readonly [title: string, show: (item: Item) => ReactNode, look?: string])[]

/** A plain table of things. A column without a title holds actions. */
export function List<Item>({
  label,
  items,
  keyOf,
  cells,
}: {
  label: string
  items: readonly Item[]
  keyOf(item: Item): string
  cells: Cells<Item>
}) {
  return (
    <div className="table-wrap">
      <table className="table" aria-label={label}>
        <thead>
          <tr>
            {cells.map(([title, , look]) => (
              <th key={title} className={look}>
                {title || <span className="visually-hidden">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((item) => (
            <tr key={keyOf(item)}>
              {cells.map(([title, show, look]) => (
                <td key={title} className={look}>
                  {show(item)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
