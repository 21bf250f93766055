import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiError } from '../../../api/client.ts'
import { quoteName, type Table, tableName, useSchema } from '../../../api/schema.ts'
import { useData } from '../../../api/view-as.ts'
import { Link, tablePath, useAddress } from '../../../app/navigate.tsx'
import { text, visible } from '../../../parts/format.ts'
import { Value } from '../../../parts/grid/value.tsx'
import { Button, ErrorLine, Loading, Tabs } from '../../../parts/ui.tsx'
import { ChangeList } from '../change-list.tsx'
import { Why } from '../why.tsx'
import { CellDialog } from './cell-dialog.tsx'
import type { RowData } from './row-pages.ts'
import { shownValue } from './values.ts'

type RowPanelProps = {
  name: string
  table: Table
  id: string
  shown: RowData | undefined
  edited: ReadonlyMap<string, unknown> | undefined
  canWrite: boolean
  onClose(): void
  onSet(row: RowData, column: string, value: unknown): void
}

const TABS = [
  ['fields', 'Fields'],
  ['relations', 'Relations'],
  ['history', 'History'],
  ['why', 'Why?'],
] as const

/** The row as a path has it: the commas of a composite key stay. */
const rowPath = (name: string, table: Table, id: string): string =>
  `/api/collections/${encodeURIComponent(name)}/${table.primaryKey.length === 1 ? encodeURIComponent(id) : id}`

export function RowPanel({ name, table, id, edited, canWrite, onClose, onSet, shown }: RowPanelProps) {
  const { core, key } = useData()
  const [{ panel }, go] = useAddress()
  const tab = TABS.find(([one]) => one === panel)?.[0] ?? 'fields'
  const setTab = (next: (typeof TABS)[number][0]): void => go({ panel: next === 'fields' ? undefined : next })
  const [editing, setEditing] = useState<string | null>(null)
  const path = rowPath(name, table, id)
  const { data: row, error } = useQuery({
    queryKey: [path, key, shown],
    queryFn: ({ signal }) => core.send<RowData>('GET', path, {}, { signal }),
    placeholderData: (before) => before,
    structuralSharing: false,
  })
  const column = table.columns.find((one) => one.name === editing)
  return (
    <aside className="row-panel" aria-label={`Row ${id}`}>
      <header>
        <h2 className="isolate" title={id}>
          {visible(id)}
        </h2>
        <Button look="quiet small" icon="x" aria-label="Close the row" onClick={onClose} />
      </header>
      <Tabs label="Row" tabs={TABS} current={tab} onChange={setTab} />
      <div className="row-panel-body" role="tabpanel" aria-labelledby={`tab-${tab}`}>
        {tab !== 'why' && tab !== 'history' && <ErrorLine error={error} />}
        {tab === 'fields' && error instanceof ApiError && [403, 404].includes(error.status) && (
          <div>
            <Button look="small" onClick={() => setTab('why')}>
              Why?
            </Button>
          </div>
        )}
        {tab === 'fields' && !row && !error && <Loading />}
        {tab === 'fields' && row && (
          <dl className="fields">
            {table.columns.map((one) => {
              const { name: title, type } = one
              const value = shownValue(one, edited?.has(title) ? edited.get(title) : row[title])
              return (
                <div key={title}>
                  <dt>
                    <span className="isolate">{visible(title)}</span> <code className="muted">{type}</code>
                  </dt>
                  <dd>
                    <button
                      type="button"
                      className={edited?.has(title) ? 'field-value edited' : 'field-value'}
                      onClick={() => setEditing(title)}
                    >
                      <span className="visually-hidden">{`${canWrite && !one.isGenerated ? 'Edit' : 'Show'} ${visible(title)}: `}</span>
                      <Value value={value} />
                    </button>
                  </dd>
                </div>
              )
            })}
          </dl>
        )}
        {tab === 'relations' && row && <Relations table={table} row={row} />}
        {tab === 'history' && <ChangeList path={`${path}/history`} />}
        {tab === 'why' && <Why table={name} id={id} row={row} />}
      </div>
      {column && row && (
        <CellDialog
          column={column}
          foreignKey={table.foreignKeys?.find(({ columns }) => columns.length === 1 && columns[0] === column.name)}
          value={edited?.has(column.name) ? edited.get(column.name) : row[column.name]}
          isNew={false}
          readOnly={!canWrite || column.isGenerated}
          onDone={(value) => onSet(shown ?? row, column.name, value)}
          onClose={() => setEditing(null)}
        />
      )}
    </aside>
  )
}

const literal = (value: unknown): string =>
  typeof value === 'boolean' || /^-?\d+(\.\d+)?$/.test(typeof value === 'string' ? '' : text(value))
    ? text(value)
    : `'${text(value).replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/** To rows that this one refers to, and to those that refer to it. */
function Relations({ table, row }: { table: Table; row: RowData }) {
  const { schema } = useSchema()
  const relations = table.relationships ?? []
  if (relations.length === 0) return <p className="muted">This table has no relations.</p>
  return (
    <ul className="panel">
      {relations.map((relation) => {
        const isOne = relation.type === 'many-to-one'
        const name = tableName({ schema: relation.toSchema, name: relation.toTable }, schema?.schemas[0])
        const values = relation.fromColumns.map((column) => row[column])
        const isNone = values.some((value) => value === null || value === undefined)
        const filter = relation.toColumns
          .map((column, index) => `${quoteName(column)} = ${literal(values[index])}`)
          .join(' AND ')
        return (
          <li key={`${relation.name} ${relation.fieldName}`}>
            <strong className="isolate">{visible(relation.fieldName)}</strong>{' '}
            <span className="muted">
              {isOne ? 'a row of' : 'rows of'} {name}
            </span>
            <div>
              {isNone ? (
                <span className="muted">none</span>
              ) : (
                <Link to={tablePath(name)} search={{ filter }}>
                  {filter}
                </Link>
              )}
            </div>
          </li>
        )
      })}
    </ul>
  )
}
