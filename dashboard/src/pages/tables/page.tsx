import { useState } from 'react'
import { type TableFigures, useFigures } from '../../api/figures.ts'
import { type Table, useSchema } from '../../api/schema.ts'
import { Find } from '../../app/find.tsx'
import { Link, tablePath, useAddress } from '../../app/navigate.tsx'
import { bytes, count, visible } from '../../parts/format.ts'
import { Page } from '../../parts/page.tsx'
import { Badge, Button, Empty, ErrorLine, Loading } from '../../parts/ui.tsx'
import { NewTable } from './new-table.tsx'

export default function TablesPage() {
  const { schema, error } = useSchema()
  const figures = useFigures().tables
  const [{ find = '', new: isNew }, go] = useAddress()
  const [sort, setSort] = useState<'name' | 'rows' | 'size'>('name')
  const figuresOf = (table: Table) => figures.get(`${table.schema}.${table.name}`)
  const found = [...(schema?.tables ?? [])].filter(([name]) => name.toLowerCase().includes(find.toLowerCase()))
  if (sort !== 'name') found.sort(([, a], [, b]) => (figuresOf(b)?.[sort] ?? 0) - (figuresOf(a)?.[sort] ?? 0))
  return (
    <Page
      title="Tables"
      actions={
        <>
          <Find label="Find a table" />
          <Button look="primary" icon="plus" onClick={() => go({ new: '1' })}>
            New table
          </Button>
        </>
      }
    >
      <ErrorLine error={error} />
      {!schema && !error && <Loading />}
      {schema && schema.tables.size === 0 && (
        <Empty title="There is no table yet" icon="table">
          <p>Make one here, or with SQL. Its API, with realtime and row security, is there at once.</p>
          <Button look="primary" icon="plus" onClick={() => go({ new: '1' })}>
            New table
          </Button>
        </Empty>
      )}
      {schema && schema.tables.size > 0 && (
        <div className="table-wrap">
          <table className="table">
            <thead>
              <tr>
                <Sorted name="name" title="Name" sort={sort} onSort={setSort} />
                <Sorted name="rows" title="Rows (estimate)" sort={sort} onSort={setSort} num />
                <Sorted name="size" title="Size" sort={sort} onSort={setSort} num />
                <th>Row security</th>
                <th>Visitors</th>
                <th>Live</th>
              </tr>
            </thead>
            <tbody>
              {found.map(([name, table]) => (
                <TableRow key={name} name={name} table={table} figures={figuresOf(table)} />
              ))}
            </tbody>
          </table>
          {found.length === 0 && <p className="muted table-note">No table is called that.</p>}
        </div>
      )}
      {isNew && schema && <NewTable schema={schema} onClose={() => go({ new: undefined })} />}
    </Page>
  )
}

type SortedProps = {
  name: 'name' | 'rows' | 'size'
  title: string
  sort: string
  num?: boolean
  onSort(name: 'name' | 'rows' | 'size'): void
}

const Sorted = ({ name, title, sort, num, onSort }: SortedProps) => (
  <th
    className={num ? 'num' : ''}
    aria-sort={sort === name ? (name === 'name' ? 'ascending' : 'descending') : undefined}
  >
    <button type="button" onClick={() => onSort(name)}>
      {title}
    </button>
  </th>
)

const KINDS = {
  table: '',
  view: 'view',
  materialized_view: 'materialized view',
  partitioned_table: 'partitioned',
  foreign_table: 'foreign',
}

function TableRow({ name, table, figures }: { name: string; table: Table; figures: TableFigures | undefined }) {
  const isView = table.kind === 'view' || table.kind === 'materialized_view'
  return (
    <tr>
      <td>
        <Link to={tablePath(name)}>
          <span className="isolate">{visible(name)}</span>
        </Link>{' '}
        {KINDS[table.kind] && <Badge>{KINDS[table.kind]}</Badge>}
        {table.comment && (
          <div className="muted clamp isolate" title={table.comment}>
            {visible(table.comment)}
          </div>
        )}
      </td>
      <td className="num">{figures && table.kind !== 'view' && figures.rows !== null ? count(figures.rows) : '–'}</td>
      <td className="num">{figures && table.kind !== 'view' ? bytes(figures.size) : '–'}</td>
      <td>
        <RowSecurity table={table} />
      </td>
      <td>{figures && <Visitors table={table} figures={figures} />}</td>
      <td>{isView ? '–' : figures?.live ? <Badge look="ok">every writer</Badge> : <Badge>the API</Badge>}</td>
    </tr>
  )
}

export function RowSecurity({ table }: { table: Table }) {
  if (table.kind === 'view' || table.kind === 'materialized_view') return <span className="muted">–</span>
  if (!table.rlsEnabled) return <Badge look="warn">off</Badge>
  const policies = table.rlsPolicies?.length ?? 0
  return policies === 0 ? (
    <Badge look="info">on, closed to all</Badge>
  ) : (
    <Badge look="ok">{`on, ${policies} ${policies === 1 ? 'policy' : 'policies'}`}</Badge>
  )
}

function Visitors({ table, figures }: { table: Table; figures: TableFigures }) {
  const forVisitors = (table.rlsPolicies ?? []).filter(({ roles }) => roles.length === 0 || roles.includes('svc_anon'))
  const isOpen = (commands: readonly string[]): boolean =>
    !table.rlsEnabled || forVisitors.some(({ command }) => commands.includes(command.toUpperCase()))
  const isView = table.kind === 'view' || table.kind === 'materialized_view'
  if (
    figures.visitors.some((action) => action !== 'SELECT') &&
    !isView &&
    isOpen(['ALL', 'INSERT', 'UPDATE', 'DELETE'])
  ) {
    return table.rlsEnabled ? <Badge look="info">by policy</Badge> : <Badge look="danger">may write</Badge>
  }
  if (figures.visitors.includes('SELECT') && isOpen(['ALL', 'SELECT']))
    return table.rlsEnabled ? <Badge look="info">by policy</Badge> : <Badge look="warn">may read</Badge>
  return <Badge look="ok">closed</Badge>
}
