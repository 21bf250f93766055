import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { dataCore, send } from '../../api/client.ts'
import { viewAs } from '../../api/view-as.ts'
import { UserBox } from '../../app/view-as-dialog.tsx'
import { Badge, Check, ErrorLine, Loading } from '../../parts/ui.tsx'

type Verdict = {
  policyName: string
  part?: string
  permissive?: boolean
  command?: string
  expression?: string
  verdict?: unknown
  message?: string
  error?: string
}
type Explained = {
  allowed: boolean
  decidedBy?: unknown
  reason?: string
  policies?: Verdict[]
  missingGrants?: string[]
  hiddenColumns?: string[]
}

const ACTIONS = ['select', 'insert', 'update', 'delete'] as const
export type ActionName = (typeof ACTIONS)[number]

type WhyProps = {
  table: string
  /** Of the row; a new one has none. */
  id?: string | undefined
  /** The new row, or the changes of one that is there. */
  row?: Readonly<Record<string, unknown>> | undefined
  /** What was tried; default: everything. */
  only?: ActionName
}

/** Why a caller can or cannot see or write a row: each policy's verdict, for every action. */
export function Why({ table, id, row, only }: WhyProps) {
  const as = viewAs.use()
  const viewed = as && 'user_id' in as.who ? { id: as.who.user_id, email: as.label } : null
  const claims = as && 'claims' in as.who ? as.who.claims : undefined
  const [user, setUser] = useState<{ id: string; email: string } | null>(viewed)
  const [isVisitor, setVisitor] = useState(viewed === null && claims === undefined)
  const who = isVisitor ? {} : user ? { user_id: user.id } : claims ? { claims } : null
  return (
    <div className="panel">
      <Check label="For a visitor, without a token" checked={isVisitor} onChange={setVisitor} />
      {!isVisitor && <UserBox user={user} onChange={setUser} />}
      {who &&
        (only ? [only] : ACTIONS).map((operation) => (
          <Action key={operation} body={{ table, operation, ...who, ...rowOf(operation, id, row, only) }} />
        ))}
    </div>
  )
}

/** Of everything, an update is judged without a change; of what was tried, with it. */
const rowOf = (operation: ActionName, id: string | undefined, row: WhyProps['row'], only: ActionName | undefined) =>
  operation === 'insert' || id === undefined ? { row: row ?? {} } : { id, ...(only === 'update' && row && { row }) }

function Action({ body }: { body: { table: string; operation: string } }) {
  const { data, error } = useQuery({
    queryKey: ['/api/admin/rls/explain', body],
    queryFn: () => send<Explained>('POST', '/api/admin/rls/explain', { body }, {}, dataCore),
  })
  return (
    <section className="card">
      <div className="card-head">
        <h3>{body.operation}</h3>
        {data && <Badge look={data.allowed ? 'ok' : 'danger'}>{data.allowed ? 'allowed' : 'refused'}</Badge>}
      </div>
      <ErrorLine error={error} />
      {!data && !error && <Loading />}
      {data?.reason && <p>{data.reason}</p>}
      <ul className="panel">
        {(data?.policies ?? []).map((policy) => (
          <li key={`${policy.policyName} ${policy.part}`}>
            <strong>{policy.policyName}</strong>{' '}
            <Badge look={policy.verdict === true ? 'ok' : policy.verdict === false ? 'danger' : 'warn'}>
              {String(policy.verdict)}
            </Badge>{' '}
            <span className="muted">{policy.part}</span>
            {policy.expression && <pre className="wrap muted">{policy.expression}</pre>}
            {(policy.message ?? policy.error) && <p className="code-del">{policy.message ?? policy.error}</p>}
          </li>
        ))}
      </ul>
      {data?.hiddenColumns && data.hiddenColumns.length > 0 && (
        <p>Columns that are hidden: {data.hiddenColumns.join(', ')}</p>
      )}
      {data?.missingGrants && data.missingGrants.length > 0 && <p>Missing grants: {data.missingGrants.join(', ')}</p>}
    </section>
  )
}
