import { Fragment, useState } from 'react'
import { useApi } from '../../api/hooks.ts'
import { Link, tablePath, useAddress } from '../../app/navigate.tsx'
import { OffsetNav } from '../../app/paged.tsx'
import { prettyJson } from '../../parts/exact.ts'
import { moment, text, visible } from '../../parts/format.ts'
import { Page } from '../../parts/page.tsx'
import { Badge, Button, Empty, Field, Loaded, Snippet } from '../../parts/ui.tsx'

type Entry = {
  id: string | number
  timestamp: string
  actor: string
  admin?: string
  impersonated_by?: string
  action: string
  target?: string
  user_id?: string
  api_key_id?: string
  table_name?: string
  record_id?: Record<string, unknown> | string
  operation?: string
  old_values?: unknown
  new_values?: unknown
  ip_address?: string
}

const FIELDS = [
  ['action', 'Action', 'sql.execute'],
  ['table', 'Table', 'orders'],
  ['user_id', 'User', 'its id'],
  ['from', 'From', '2026-01-01'],
  ['to', 'To', '2026-12-31'],
] as const

/** The row's key as an address has it. */
const rowOf = (record: Entry['record_id']): string =>
  typeof record === 'object' && record !== null
    ? Object.values(record)
        .map((value) => (Object.keys(record).length === 1 ? String(value) : encodeURIComponent(String(value))))
        .join()
    : String(record ?? '')

export default function AuditPage() {
  const [search, go] = useAddress()
  const { offset = '0' } = search
  const query = Object.fromEntries(
    [...FIELDS.map(([name]) => name), 'operation'].map((name) => [name, search[name] || undefined]),
  )
  const audit = useApi<{ items: Entry[]; count: number }>(
    '/api/admin/audit',
    { ...query, limit: 100, offset },
    { exact: true },
  )
  const [shown, setShown] = useState<unknown>(null)
  return (
    <Page title="Audit" note="Every write of an administrator, and of tables that are audited.">
      <form className="row" onSubmit={(event) => event.preventDefault()}>
        {FIELDS.map(([name, title, placeholder]) => (
          <Field key={name} label={title}>
            {(props) => (
              <input
                className="input"
                style={{ width: 150 }}
                {...props}
                placeholder={placeholder}
                defaultValue={search[name] ?? ''}
                onBlur={(event) => go({ [name]: event.target.value || undefined, offset: undefined })}
                onKeyDown={(event) => {
                  if (event.key === 'Enter') go({ [name]: event.currentTarget.value || undefined, offset: undefined })
                }}
              />
            )}
          </Field>
        ))}
        <Field label="Operation">
          {(props) => (
            <select
              className="input"
              {...props}
              value={search['operation'] ?? ''}
              onChange={(event) => go({ operation: event.target.value || undefined })}
            >
              <option value="">any</option>
              <option>INSERT</option>
              <option>UPDATE</option>
              <option>DELETE</option>
            </select>
          )}
        </Field>
      </form>
      <Loaded of={audit}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="Nothing fits" icon="audit" />
          ) : (
            <>
              <div className="table-wrap with-details">
                <table className="table">
                  <thead>
                    <tr>
                      <th>When</th>
                      <th>Who</th>
                      <th>What</th>
                      <th>On</th>
                      <th>From</th>
                      <th>
                        <span className="visually-hidden">Actions</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {items.map((entry) => (
                      <Fragment key={String(entry.id)}>
                        <tr>
                          <td className="nowrap">{moment(entry.timestamp)}</td>
                          <td className="isolate">
                            <Who entry={entry} />
                          </td>
                          <td className="nowrap">
                            <code>{entry.action}</code> {entry.operation && <Badge>{entry.operation}</Badge>}
                          </td>
                          <td className="isolate what">
                            <On entry={entry} />
                          </td>
                          <td className="nowrap">{entry.ip_address}</td>
                          <td className="end">
                            {entry.new_values || entry.old_values ? (
                              <Button
                                look="small"
                                aria-expanded={shown === entry.id}
                                onClick={() => setShown(shown === entry.id ? null : entry.id)}
                              >
                                Details
                              </Button>
                            ) : null}
                          </td>
                        </tr>
                        {shown === entry.id && (
                          <tr>
                            <td colSpan={6}>
                              <div className="columns details">
                                {entry.old_values ? (
                                  <Snippet label="Before" text={prettyJson(text(entry.old_values))} wrap />
                                ) : null}
                                {entry.new_values ? (
                                  <Snippet label="After" text={prettyJson(text(entry.new_values))} wrap />
                                ) : null}
                              </div>
                            </td>
                          </tr>
                        )}
                      </Fragment>
                    ))}
                  </tbody>
                </table>
              </div>
              <OffsetNav limit={100} shown={items.length} />
            </>
          )
        }
      </Loaded>
    </Page>
  )
}

function Who({ entry }: { entry: Entry }) {
  return (
    <>
      {entry.impersonated_by && <div>{visible(entry.impersonated_by)} as</div>}
      {entry.user_id ? (
        <Link to={`/users/${encodeURIComponent(entry.user_id)}`}>{`${entry.actor} ${entry.user_id.slice(0, 8)}…`}</Link>
      ) : (
        visible(entry.admin ?? entry.actor)
      )}
    </>
  )
}

function On({ entry }: { entry: Entry }) {
  if (!entry.table_name) {
    const query = (entry.new_values as { query?: unknown } | undefined)?.query
    return typeof query === 'string' ? <code>{visible(query.trim().slice(0, 120))}</code> : visible(text(entry.target))
  }
  const name = entry.table_name.replace(/^public\./, '')
  const row = rowOf(entry.record_id)
  return (
    <Link to={tablePath(name)} search={row ? { row, panel: 'history' } : { tab: 'history' }}>
      {visible(name)} {visible(row)}
    </Link>
  )
}
