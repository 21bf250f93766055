import { useState } from 'react'
import { post } from '../../api/client.ts'
import { useFigures } from '../../api/figures.ts'
import { useAction } from '../../api/hooks.ts'
import { type Table, useSchema } from '../../api/schema.ts'
import { Link, tablePath, useAddress } from '../../app/navigate.tsx'
import { moment, visible } from '../../parts/format.ts'
import { Page } from '../../parts/page.tsx'
import { kept } from '../../parts/store.ts'
import { Badge, Button, Empty, ErrorLine, Field, Loading, TabPanel, Tabs } from '../../parts/ui.tsx'
import { Why } from '../table/why.tsx'

const TABS = [
  ['matrix', 'Matrix'],
  ['why', 'Why?'],
  ['snapshot', 'Snapshot'],
] as const

export default function PoliciesPage() {
  const [{ tab = 'matrix' }, go] = useAddress()
  const current = TABS.find(([id]) => id === tab)?.[0] ?? 'matrix'
  return (
    <Page title="Policies" note="Who may do what with which rows, as PostgreSQL decides it.">
      <Tabs label="Policies" tabs={TABS} current={current} onChange={(id) => go({ tab: id })} />
      <TabPanel name={current}>
        {current === 'matrix' && <Matrix />}
        {current === 'why' && <WhyTab />}
        {current === 'snapshot' && <Snapshot />}
      </TabPanel>
    </Page>
  )
}

const ACTIONS = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'] as const
const CALLERS = [
  ['visitor', 'svc_anon', 'visitors'],
  ['user', 'svc_authenticated', 'users'],
  ['key', 'svc_authenticated', 'users'],
] as const

type Verdict = { text: string; look: 'ok' | 'warn' | 'danger' | 'info' | ''; title: string }

function verdictOf(table: Table, action: string, role: string, grants: readonly string[]): Verdict {
  if (!grants.includes(action)) return { text: 'no', look: 'ok', title: 'no privilege' }
  const isView = table.kind === 'view' || table.kind === 'materialized_view'
  if (isView && action !== 'SELECT') return { text: '–', look: '', title: 'a view' }
  if (!table.rlsEnabled)
    return {
      text: 'all',
      look: action === 'SELECT' ? 'warn' : 'danger',
      title: isView ? 'a view: all its rows' : 'row security is off: every row',
    }
  const mine = (table.rlsPolicies ?? []).filter(
    ({ command, roles }) =>
      ['ALL', action].includes(command.toUpperCase()) && (roles.length === 0 || roles.includes(role)),
  )
  if (!mine.some(({ permissive }) => permissive)) return { text: 'no', look: 'ok', title: 'no policy allows it' }
  const isEvery = mine.every(({ usingExpr, withCheckExpr }) => (usingExpr ?? withCheckExpr) === 'true')
  const title = mine.map(({ name }) => name).join(', ')
  return isEvery ? { text: 'all', look: 'info', title } : { text: 'some', look: 'info', title }
}

function Matrix() {
  const { schema, error } = useSchema()
  const figures = useFigures()
  const [find, setFind] = useState('')
  if (!schema) return error ? <ErrorLine error={error} /> : <Loading />
  if (schema.tables.size === 0)
    return (
      <Empty title="There is no table yet" icon="shield">
        <Link to="/tables" search={{ new: '1' }} className="button">
          New table
        </Link>
      </Empty>
    )
  const shown = [...schema.tables].filter(([name]) => name.toLowerCase().includes(find.toLowerCase())).slice(0, 400)
  return (
    <>
      <Field label="Find a table">
        {(props) => (
          <input className="input" {...props} value={find} onChange={(event) => setFind(event.target.value)} />
        )}
      </Field>
      <ErrorLine error={figures.error} />
      <div className="table-wrap">
        <table className="table matrix">
          <thead>
            <tr>
              <th rowSpan={2}>Table</th>
              {ACTIONS.map((action) => (
                <th key={action} colSpan={3} scope="colgroup">
                  {action.toLowerCase()}
                </th>
              ))}
            </tr>
            <tr>
              {ACTIONS.flatMap((action) =>
                CALLERS.map(([caller]) => (
                  <th key={`${action} ${caller}`} scope="col">
                    {caller}
                  </th>
                )),
              )}
            </tr>
          </thead>
          <tbody>
            {shown.map(([name, table]) => (
              <tr key={name}>
                <td>
                  <Link to={tablePath(name)} search={{ tab: 'policies' }}>
                    <span className="isolate">{visible(name)}</span>
                  </Link>
                </td>
                {ACTIONS.flatMap((action) =>
                  CALLERS.map(([caller, role, granted]) => {
                    const { text, look, title } = verdictOf(
                      table,
                      action,
                      role,
                      figures.tables.get(`${table.schema}.${table.name}`)?.[granted] ?? [],
                    )
                    return (
                      <td key={`${action} ${caller}`} title={`${caller}, ${action.toLowerCase()}: ${title}`}>
                        {figures.database && <Badge look={look}>{text}</Badge>}
                      </td>
                    )
                  }),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="muted">
        <strong>all</strong> every row, <strong>some</strong> those that a policy picks, <strong>no</strong> none. A key
        acts as its user, within its own scope and tables.
      </p>
    </>
  )
}

function WhyTab() {
  const { schema } = useSchema()
  const [{ table = '', row: id = '' }, go] = useAddress()
  const chosen = table || [...(schema?.tables.keys() ?? [])][0] || ''
  return (
    <>
      <div className="row">
        <div className="grow">
          <Field label="Table">
            {(props) => (
              <select
                className="input"
                {...props}
                value={chosen}
                onChange={(event) => go({ table: event.target.value })}
              >
                {[...(schema?.tables.keys() ?? [])].map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            )}
          </Field>
        </div>
        <div className="grow">
          <Field label="Row" hint="Its key; a row that was just deleted is found too.">
            {(props) => (
              <input
                className="input"
                {...props}
                value={id}
                onChange={(event) => go({ row: event.target.value }, { replace: true })}
              />
            )}
          </Field>
        </div>
      </div>
      {chosen && id && <Why key={`${chosen} ${id}`} table={chosen} id={id} />}
    </>
  )
}

type Kept = { at: string; text: string }

/** Lines that are in one text only. */
function difference(before: string, after: string): { sign: '+' | '-'; line: string }[] {
  const [old, fresh] = [before.split('\n'), after.split('\n')]
  const [inOld, inFresh] = [new Set(old), new Set(fresh)]
  return [
    ...old.filter((line) => !inFresh.has(line)).map((line) => ({ sign: '-' as const, line })),
    ...fresh.filter((line) => !inOld.has(line)).map((line) => ({ sign: '+' as const, line })),
  ]
}

function Snapshot() {
  const [last, setLast] = useState(() => kept.read('rls snapshot') as Kept | null)
  const [now, setNow] = useState<string | null>(null)
  const take = useAction(() => post<{ snapshot: string }>('/api/admin/rls/snapshot', {}))
  const compare = async (): Promise<void> => setNow((await take.runAsync()).snapshot)
  const keep = (): void => {
    if (now === null) return
    const next = { at: new Date().toISOString(), text: now }
    kept.write('rls snapshot', next)
    setLast(next)
  }
  const lines = now !== null && last ? difference(last.text, now) : []
  return (
    <>
      <div className="row">
        <Button look="primary" busy={take.busy} onClick={() => void compare()}>
          Who may do what now
        </Button>
        {now !== null && <Button onClick={keep}>Keep as the last snapshot</Button>}
        <span className="muted">{last ? `Last kept ${moment(last.at)}` : 'None is kept in this browser yet.'}</span>
      </div>
      {now !== null && last && lines.length === 0 && <Badge look="ok">Nothing changed since the last snapshot</Badge>}
      {lines.length > 0 && (
        <pre className="card wrap" tabIndex={0}>
          {lines.map(({ sign, line }) => (
            <div key={sign + line} className={sign === '+' ? 'code-add' : 'code-del'}>{`${sign} ${line}`}</div>
          ))}
        </pre>
      )}
      {now !== null && (
        <pre className="card" tabIndex={0} style={{ overflow: 'auto', maxHeight: 420 }}>
          {now}
        </pre>
      )}
    </>
  )
}
