import { useState } from 'react'
import { type Schema, schemaChanged, tableName } from '../../api/schema.ts'
import { sql } from '../../api/sql.ts'
import { tablePath, useGo } from '../../app/navigate.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { toast } from '../../parts/toast.tsx'
import { Button, Check, ErrorLine, Field, Snippet } from '../../parts/ui.tsx'
import { type Draft, type DraftColumn, POLICIES, sqlOf } from './draft.ts'

const TYPES = [
  'text',
  'integer',
  'bigint',
  'numeric',
  'double precision',
  'boolean',
  'timestamptz',
  'date',
  'time',
  'uuid',
  'jsonb',
  'text[]',
  'integer[]',
  'bytea',
  'inet',
  'interval',
]

let ids = 0
const column = (name: string, type: string, more: Partial<DraftColumn> = {}): DraftColumn => ({
  ...{ id: ++ids, name, type, defaultTo: '', required: false, unique: false, references: '' },
  ...more,
})

export function NewTable({ schema, onClose }: { schema: Schema; onClose(): void }) {
  const go = useGo()
  const [draft, setDraft] = useState<Draft>(() => ({
    schema: schema.schemas[0] ?? 'public',
    name: '',
    key: 'identity',
    columns: [
      column('title', 'text', { required: true }),
      column('created_at', 'timestamptz', { required: true, defaultTo: 'now()' }),
    ],
    policy: 'owner',
    live: true,
  }))
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const change = (part: Partial<Draft>): void => setDraft({ ...draft, ...part })
  const changeColumn = (id: number, part: Partial<DraftColumn>): void =>
    change({ columns: draft.columns.map((old) => (old.id === id ? { ...old, ...part } : old)) })
  const statement = sqlOf(draft, schema)

  async function create(): Promise<void> {
    setBusy(true)
    setError(null)
    try {
      await sql(statement)
      await schemaChanged()
      toast(`Table ${draft.name} is there`)
      go(tablePath(tableName(draft, schema.schemas[0])))
    } catch (failure) {
      setError(failure)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      title="New table"
      look="wide"
      onClose={onClose}
      onSubmit={() => void create()}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={busy} disabled={draft.name === ''}>
            Create table
          </Button>
        </>
      }
    >
      <div className="row">
        <div className="grow">
          <Field label="Name">
            {(props) => (
              <input
                className="input"
                autoComplete="off"
                {...props}
                value={draft.name}
                onChange={(e) => change({ name: e.target.value })}
              />
            )}
          </Field>
        </div>
        {schema.schemas.length > 1 && (
          <Field label="Schema">
            {(props) => (
              <select
                className="input"
                {...props}
                value={draft.schema}
                onChange={(e) => change({ schema: e.target.value })}
              >
                {schema.schemas.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            )}
          </Field>
        )}
        <Field label="Key">
          {(props) => (
            <select
              className="input"
              {...props}
              value={draft.key}
              onChange={(e) => change({ key: e.target.value as Draft['key'] })}
            >
              <option value="identity">id, counted (bigint)</option>
              <option value="uuid">id, random (uuid)</option>
            </select>
          )}
        </Field>
      </div>
      <fieldset className="panel plain">
        <legend className="legend">Columns</legend>
        {draft.columns.map((item, index) => (
          <ColumnFields
            key={item.id}
            item={item}
            index={index}
            schema={schema}
            onChange={(part) => changeColumn(item.id, part)}
            onRemove={() => change({ columns: draft.columns.filter(({ id }) => id !== item.id) })}
          />
        ))}
        <div>
          <Button look="small" icon="plus" onClick={() => change({ columns: [...draft.columns, column('', 'text')] })}>
            Add column
          </Button>
        </div>
      </fieldset>
      <fieldset className="choices">
        <legend className="legend">Row security: who may do what</legend>
        {POLICIES.map(({ name, title, hint }) => (
          <label key={name} className="choice">
            <input
              type="radio"
              name="policy"
              checked={draft.policy === name}
              onChange={() => change({ policy: name })}
            />
            <span>{title}</span>
            <span className="hint">{hint}</span>
          </label>
        ))}
      </fieldset>
      <Check
        label="Live for every writer: changes by psql, functions and cascades are heard too"
        checked={draft.live}
        onChange={(live) => change({ live })}
      />
      <details>
        <summary>The SQL that runs</summary>
        <Snippet label="SQL" text={statement} />
      </details>
      <ErrorLine error={error} />
    </Dialog>
  )
}

type ColumnFieldsProps = {
  item: DraftColumn
  index: number
  schema: Schema
  onChange(part: Partial<DraftColumn>): void
  onRemove(): void
}

function ColumnFields({ item, index, schema, onChange, onRemove }: ColumnFieldsProps) {
  const name = item.name || `column ${index + 1}`
  const targets = [...schema.tables].filter(([, table]) => table.primaryKey.length === 1)
  return (
    <div className="new-column">
      <input
        className="input"
        aria-label={`Name of column ${index + 1}`}
        placeholder="name"
        value={item.name}
        onChange={(e) => onChange({ name: e.target.value })}
      />
      <select
        className="input"
        aria-label={`Type of ${name}`}
        value={item.references ? `→ ${item.references}` : item.type}
        onChange={(e) => {
          const { value } = e.target
          onChange(value.startsWith('→ ') ? { references: value.slice(2) } : { type: value, references: '' })
        }}
      >
        {TYPES.map((type) => (
          <option key={type}>{type}</option>
        ))}
        <optgroup label="A row of">
          {targets.map(([target]) => (
            <option key={target}>{`→ ${target}`}</option>
          ))}
          <option>{'→ svc.users'}</option>
        </optgroup>
      </select>
      <input
        className="input mono"
        aria-label={`Default of ${name}`}
        placeholder="default"
        value={item.defaultTo}
        onChange={(e) => onChange({ defaultTo: e.target.value })}
      />
      <Check label="required" checked={item.required} onChange={(required) => onChange({ required })} />
      <Check label="unique" checked={item.unique} onChange={(unique) => onChange({ unique })} />
      <Button look="quiet small" icon="trash" aria-label={`Remove ${name}`} onClick={onRemove} />
    </div>
  )
}
