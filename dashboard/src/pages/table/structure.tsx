import { type ReactNode, useState } from 'react'
import {
  type Column,
  fullName,
  quoteName,
  quoteText,
  schemaChanged,
  type Table,
  tableName,
  useSchema,
} from '../../api/schema.ts'
import { sql } from '../../api/sql.ts'
import { Link, tablePath, useGo } from '../../app/navigate.tsx'
import { FormDialog, type FormField, type Values } from '../../parts/dialog.tsx'
import { visible } from '../../parts/format.ts'
import { MenuButton } from '../../parts/menu.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Snippet } from '../../parts/ui.tsx'

/** A change of the structure: a form, and the SQL it makes of it, which is shown before it runs. */
type Alteration = {
  title: string
  fields: FormField[]
  sql(values: Values): string
  yes: string
  danger?: boolean
  after?: () => void
  name?: string
}

const TYPES = [
  'text',
  'integer',
  'bigint',
  'numeric',
  'double precision',
  'boolean',
  'timestamptz',
  'date',
  'uuid',
  'jsonb',
  'text[]',
  'bytea',
]

function propertyOf({ isIdentity, isGenerated, nullable }: Column) {
  if (isIdentity) return <Badge>identity</Badge>
  if (isGenerated) return <Badge>generated</Badge>
  return nullable ? null : <Badge>required</Badge>
}

export function Structure({ name, table }: { name: string; table: Table; path: string }) {
  const go = useGo()
  const { schema } = useSchema()
  const [alteration, setAlteration] = useState<Alteration | null>(null)
  const target = fullName(table)
  const isTable = table.kind === 'table' || table.kind === 'partitioned_table'
  const columnMenu = (column: Column): Alteration[] => [
    {
      title: `Rename ${column.name}`,
      yes: 'Rename',
      fields: [{ name: 'to', label: 'New name', value: column.name, required: true }],
      sql: ({ to }) => `alter table ${target} rename column ${quoteName(column.name)} to ${quoteName(String(to))};`,
    },
    {
      title: `Type of ${column.name}`,
      yes: 'Change',
      fields: [
        { name: 'type', label: 'Type', value: column.type, required: true },
        {
          name: 'using',
          label: 'Made from the old value by',
          placeholder: `${quoteName(column.name)}::text`,
          hint: 'Leave empty where PostgreSQL knows how.',
        },
      ],
      sql: ({ type, using }) =>
        `alter table ${target} alter column ${quoteName(column.name)} type ${type}${using ? ` using ${using}` : ''};`,
    },
    {
      title: `Default of ${column.name}`,
      yes: 'Change',
      fields: [
        { name: 'default', label: 'Default', value: column.default ?? '', hint: 'An expression; empty = none.' },
      ],
      sql: (values) =>
        `alter table ${target} alter column ${quoteName(column.name)} ${values['default'] ? `set default ${values['default']}` : 'drop default'};`,
    },
    {
      title: column.nullable ? `Require ${column.name}` : `Allow NULL in ${column.name}`,
      yes: 'Change',
      fields: [],
      sql: () =>
        `alter table ${target} alter column ${quoteName(column.name)} ${column.nullable ? 'set' : 'drop'} not null;`,
    },
    {
      title: `Comment on ${column.name}`,
      yes: 'Save',
      fields: [{ name: 'comment', label: 'Comment', value: column.comment ?? '' }],
      sql: ({ comment }) =>
        `comment on column ${target}.${quoteName(column.name)} is ${comment ? quoteText(String(comment)) : 'null'};`,
    },
    {
      title: `Index ${column.name}`,
      yes: 'Create index',
      fields: [{ name: 'unique', label: 'Unique', type: 'check' }],
      sql: ({ unique }) => `create ${unique ? 'unique ' : ''}index on ${target} (${quoteName(column.name)});`,
    },
    {
      title: `Drop ${column.name}`,
      yes: 'Drop column',
      danger: true,
      name: column.name,
      fields: [],
      sql: () => `alter table ${target} drop column ${quoteName(column.name)};`,
    },
  ]
  const first = schema?.schemas[0]
  return (
    <>
      <div className="row">
        <h2 className="grow">Columns</h2>
        {isTable && (
          <>
            <Button
              icon="plus"
              onClick={() =>
                setAlteration({
                  title: 'New column',
                  yes: 'Add column',
                  fields: [
                    { name: 'name', label: 'Name', required: true },
                    {
                      name: 'type',
                      label: 'Type',
                      type: 'select',
                      options: TYPES.map((type) => [type, type] as const),
                    },
                    { name: 'default', label: 'Default', placeholder: 'an expression' },
                    { name: 'required', label: 'Required', type: 'check' },
                  ],
                  sql: (values) =>
                    `alter table ${target} add column ${quoteName(String(values['name'] || 'new_column'))} ${values['type']}${values['required'] ? ' not null' : ''}${values['default'] ? ` default ${values['default']}` : ''};`,
                })
              }
            >
              Add column
            </Button>
            <MenuButton
              label="Table"
              icon="more"
              items={[
                {
                  label: 'Rename',
                  icon: 'edit',
                  run: () =>
                    setAlteration({
                      title: `Rename ${name}`,
                      yes: 'Rename',
                      fields: [{ name: 'to', label: 'New name', value: table.name, required: true }],
                      sql: ({ to }) => `alter table ${target} rename to ${quoteName(String(to))};`,
                      after: () => go('/tables'),
                    }),
                },
                {
                  label: 'Hear every writer',
                  icon: 'live',
                  run: () =>
                    setAlteration({
                      title: 'Hear every writer',
                      yes: 'Watch',
                      fields: [],
                      sql: () => `select svc.watch(${quoteText(target)});`,
                    }),
                },
                {
                  label: 'Delete all rows',
                  icon: 'trash',
                  danger: true,
                  run: () =>
                    setAlteration({
                      title: `Truncate ${name}`,
                      yes: 'Delete all rows',
                      danger: true,
                      name,
                      fields: [],
                      sql: () => `truncate ${target};`,
                    }),
                },
                {
                  label: 'Drop table',
                  icon: 'trash',
                  danger: true,
                  run: () =>
                    setAlteration({
                      title: `Drop ${name}`,
                      yes: 'Drop table',
                      danger: true,
                      name,
                      fields: [],
                      sql: () => `drop table ${target};`,
                      after: () => go('/tables'),
                    }),
                },
              ]}
            />
          </>
        )}
      </div>
      <div className="table-wrap">
        <table className="table">
          <thead>
            <tr>
              <th>Name</th>
              <th>Type</th>
              <th>Default</th>
              <th>Properties</th>
              <th>
                <span className="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {table.columns.map((column) => (
              <tr key={column.name}>
                <td>
                  <strong className="isolate">{visible(column.name)}</strong>
                  {column.comment && <div className="muted isolate">{visible(column.comment)}</div>}
                </td>
                <td>
                  <code>{column.type}</code>
                  {column.enumValues && <div className="muted">{column.enumValues.join(', ')}</div>}
                </td>
                <td>
                  <code>{visible(column.default)}</code>
                </td>
                <td>
                  {column.isPrimaryKey && <Badge look="info">key</Badge>} {propertyOf(column)}
                </td>
                <td className="end">
                  {isTable && (
                    <MenuButton
                      label={`Change ${column.name}`}
                      look="quiet small"
                      icon="more"
                      items={columnMenu(column).map((item) => ({
                        label: item.title,
                        ...(item.danger && { danger: true }),
                        run: () => setAlteration(item),
                      }))}
                    />
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Listed title="Indexes" none="No index.">
        {(table.indexes ?? []).map((index) => (
          <li key={index.name} className="row">
            <code className="grow">{index.definition}</code>
            {index.isPrimary ? (
              <Badge look="info">key</Badge>
            ) : (
              <Button
                look="quiet small"
                icon="trash"
                aria-label={`Drop ${index.name}`}
                onClick={() =>
                  setAlteration({
                    title: `Drop ${index.name}`,
                    yes: 'Drop index',
                    danger: true,
                    name: index.name,
                    fields: [],
                    sql: () => `drop index ${fullName({ schema: table.schema, name: index.name })};`,
                  })
                }
              />
            )}
          </li>
        ))}
      </Listed>
      <Listed title="Relations" none="No relation.">
        {(table.relationships ?? []).map((relation) => {
          const to = tableName({ schema: relation.toSchema, name: relation.toTable }, first)
          return (
            <li key={`${relation.name} ${relation.fieldName}`}>
              <code>{relation.fieldName}</code>: {relation.fromColumns.join(', ')} →{' '}
              <Link to={tablePath(to)}>{to}</Link> ({relation.toColumns.join(', ')}), {relation.type}
            </li>
          )
        })}
      </Listed>
      <Listed title="Checks" none="No check.">
        {(table.checkConstraints ?? []).map((check) => (
          <li key={check.name}>
            <code>
              {check.name}: {check.definition}
            </code>
          </li>
        ))}
      </Listed>
      {alteration && <AlterationDialog alteration={alteration} onClose={() => setAlteration(null)} />}
    </>
  )
}

const Listed = ({ title, none, children }: { title: string; none: string; children: ReactNode[] }) => (
  <section className="card">
    <h2>{title}</h2>
    {children.length === 0 ? <p className="muted">{none}</p> : <ul className="panel">{children}</ul>}
  </section>
)

/** Shows the SQL first. What cannot be taken back asks for the name. */
function AlterationDialog({ alteration, onClose }: { alteration: Alteration; onClose(): void }) {
  const { title, fields, yes, danger = false, name, after } = alteration
  const named: FormField[] =
    name === undefined ? [] : [{ name: 'sure', label: `Type “${name}” to go on`, required: true }]
  return (
    <FormDialog
      title={title}
      yes={yes}
      danger={danger}
      fields={[...fields, ...named]}
      onClose={onClose}
      onSubmit={async (values) => {
        if (name !== undefined && values['sure'] !== name) throw new Error('That is another name.')
        await sql(alteration.sql(values))
        await schemaChanged()
        toast('Done')
        after?.()
      }}
    >
      {(values) => <Snippet label="SQL" text={alteration.sql(values)} wrap />}
    </FormDialog>
  )
}
