import { useState } from 'react'
import { get } from '../../../api/client.ts'
import { type Column, type ForeignKey, quoteName, tableName, useSchema } from '../../../api/schema.ts'
import { UserBox } from '../../../app/view-as-dialog.tsx'
import { Combobox } from '../../../parts/combobox.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { prettyJson } from '../../../parts/exact.ts'
import { text as textOf, visible } from '../../../parts/format.ts'
import { Button, Field } from '../../../parts/ui.tsx'
import { Bytes } from './bytes.tsx'
import { isGeoJson, Places } from './places.tsx'
import type { RowData } from './row-pages.ts'
import { editText, kindOf, parseCell } from './values.ts'

type CellDialogProps = {
  column: Column
  foreignKey: ForeignKey | undefined
  value: unknown
  /** Instead of the value: the key that began it. */
  typed?: string | undefined
  isNew: boolean
  readOnly: boolean
  onDone(value: unknown): void
  onClose(): void
}

/** A value with room: JSON with checks, arrays, rows of other tables, places, vectors, bytes; and NULL, empty and default. */
export function CellDialog({ column, foreignKey, value, typed, isNew, readOnly, onDone, onClose }: CellDialogProps) {
  const [text, setText] = useState(typed ?? editText(column, value))
  const kind = kindOf(column)
  let problem = ''
  let parsed: unknown
  try {
    parsed = parseCell(column, text)
  } catch (error) {
    problem = (error as Error).message
  }
  const done = (given: unknown): void => {
    onDone(given)
    onClose()
  }
  return (
    <Dialog
      title={column.name}
      look={kind === 'json' || kind === 'text' ? 'wide' : ''}
      onClose={onClose}
      onSubmit={() => !problem && !readOnly && done(parsed)}
      foot={
        readOnly ? (
          <Button onClick={onClose}>Close</Button>
        ) : (
          <>
            {column.nullable && <Button onClick={() => done(null)}>NULL</Button>}
            {kind === 'text' && <Button onClick={() => done('')}>Empty</Button>}
            {isNew && <Button onClick={() => done(undefined)}>Default</Button>}
            <span className="grow" />
            <Button onClick={onClose}>Cancel</Button>
            <Button type="submit" look="primary" disabled={problem !== ''}>
              Set
            </Button>
          </>
        )
      }
    >
      <p className="muted">
        <code>{column.type}</code>
        {column.nullable ? '' : ', required'}
        {column.default ? `, default ${column.default}` : ''}
        {column.comment && <span className="isolate"> · {visible(column.comment)}</span>}
      </p>
      {foreignKey && !readOnly && isUsers(foreignKey) && (
        <UserBox user={null} onChange={({ id }) => setText(id)} label="A user" />
      )}
      {foreignKey && !readOnly && !isUsers(foreignKey) && (
        <ForeignRow foreignKey={foreignKey} value={text} onChoose={setText} />
      )}
      {kind === 'moment' && !readOnly && <Moment value={text} onChange={setText} />}
      <Field label="Value" hint={problem && <span className="code-del">{problem}</span>}>
        {(props) => (
          <textarea
            className="input mono"
            rows={kind === 'json' ? 16 : 5}
            spellCheck={kind === 'text'}
            readOnly={readOnly}
            aria-invalid={problem !== ''}
            {...props}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        )}
      </Field>
      {kind === 'json' && !readOnly && (
        <div>
          <Button look="small" disabled={problem !== ''} onClick={() => setText(prettyJson(text))}>
            Format
          </Button>
        </div>
      )}
      {kind === 'bytes' && !problem && <Bytes name={column.name} value={text} readOnly={readOnly} onChange={setText} />}
      {!problem && parsed && (kind === 'place' || (kind === 'json' && isGeoJson(text))) ? (
        <Places value={JSON.parse(text)} />
      ) : null}
      {hasDimensions(column) && Array.isArray(parsed) ? <Bars values={parsed.map(Number)} /> : null}
    </Dialog>
  )
}

/** Accounts are no collection, and found by their address. */
const isUsers = ({ referencedSchema, referencedTable }: ForeignKey): boolean =>
  referencedSchema === 'svc' && referencedTable === 'users'

/** A database without pgvector keeps vectors in arrays, and searches them there. */
const hasDimensions = (column: Column): boolean => column.isVector || /^(real|double precision)\[\]$/.test(column.type)

function Bars({ values }: { values: number[] }) {
  const most = Math.max(1e-9, ...values.map(Math.abs))
  return (
    <div className="bars" role="img" aria-label={`${values.length} dimensions`}>
      {values.slice(0, 400).map((value, index) => (
        <i
          key={index}
          style={{ height: `${Math.max(2, (Math.abs(value) / most) * 100)}%`, opacity: value < 0 ? 0.45 : 1 }}
        />
      ))}
    </div>
  )
}

/** The date and the time apart from the zone, which is kept as it is written. */
function Moment({ value, onChange }: { value: string; onChange(value: string): void }) {
  const [, local = '', zone = ''] = /^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)\d*(.*)$/.exec(value) ?? []
  return (
    <div className="row">
      <Field label="Date and time">
        {(props) => (
          <input
            className="input"
            type="datetime-local"
            step="0.001"
            {...props}
            value={local.replace(' ', 'T')}
            onChange={(event) => onChange(event.target.value + (zone || '+00:00'))}
          />
        )}
      </Field>
      <Field label="Zone">
        {(props) => (
          <input
            className="input"
            {...props}
            value={zone}
            placeholder="+00:00"
            onChange={(event) => onChange(local + event.target.value)}
          />
        )}
      </Field>
      <Button look="small" onClick={() => onChange(new Date().toISOString().replace('Z', '+00:00'))}>
        Now
      </Button>
    </div>
  )
}

/** A row of the other table, by a search over its texts. */
function ForeignRow({
  foreignKey,
  value,
  onChoose,
}: {
  foreignKey: ForeignKey
  value: string
  onChoose(value: string): void
}) {
  const { schema } = useSchema()
  const name = tableName({ schema: foreignKey.referencedSchema, name: foreignKey.referencedTable }, schema?.schemas[0])
  const target = schema?.tables.get(name)
  const keyColumn = foreignKey.referencedColumns[0] ?? 'id'
  const texts =
    target?.columns.filter((column) => /^(text|character|varchar|citext)/.test(column.type)).slice(0, 3) ?? []
  const find = async (search: string): Promise<RowData[]> => {
    const words = search.replaceAll('\\', '\\\\').replaceAll("'", "\\'")
    const conditions = texts.map((column) => `${quoteName(column.name)} ~ '%${words}%'`)
    const fields = [keyColumn, ...texts.map((column) => column.name)]
    const filter = search && conditions.length > 0 ? conditions.join(' || ') : undefined
    const answer = await get<{ items: RowData[] }>(`/api/collections/${encodeURIComponent(name)}`, {
      ...{ perPage: 20, total: 'none', filter, cut: 200 },
      fields: [...new Set(fields)].join(),
    })
    return answer.items
  }
  return (
    <Combobox<RowData>
      label={`A row of ${name}`}
      placeholder={texts.length > 0 ? `Search ${texts.map((column) => column.name).join(', ')}` : 'Choose'}
      value={value}
      find={find}
      keyOf={(row) => String(row[keyColumn])}
      show={(row) => (
        <span>
          <strong>{String(row[keyColumn])}</strong> {texts.map((column) => textOf(row[column.name])).join(' · ')}
        </span>
      )}
      onChoose={(row) => onChoose(String(row[keyColumn]))}
    />
  )
}
