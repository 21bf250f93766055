import { useMemo } from 'react'
import { useApi } from '../../api/hooks.ts'
import { session } from '../../api/session.ts'
import { Find } from '../../app/find.tsx'
import { Link, useAddress } from '../../app/navigate.tsx'
import { ViewAsButton } from '../../app/view-as-banner.tsx'
import { visible } from '../../parts/format.ts'
import { Page } from '../../parts/page.tsx'
import { Badge, Empty, Loaded } from '../../parts/ui.tsx'
import { Errors } from './errors.tsx'
import { GraphQl } from './graphql.tsx'
import { type Call, callsOf, type Document } from './openapi.ts'
import { TryCall } from './try-call.tsx'

/** What applications call comes first. */
const FIRST = ['collections', 'rpc', 'graphql', 'realtime', 'storage', 'auth', 'orgs', 'schema']
const orderOf = (group: string): number =>
  FIRST.includes(group) ? FIRST.indexOf(group) : group.startsWith('admin') ? 100 : 50

const idOf = ({ method, path }: Call): string => `${method} ${path}`

/** The reference. It opens without signing in, and shows each caller what they may use. */
export default function ApiPage() {
  const { token } = session.use()
  const document = useApi<Document>('/api/openapi.json', {}, { fresh: 60_000 })
  return (
    <Page
      title="API"
      actions={token ? <ViewAsButton /> : undefined}
      note="Every call of this server, with your own tables. Try any of them as any caller."
    >
      <Loaded of={document}>{(data) => <Reference document={data} />}</Loaded>
      {token && <GraphQl />}
      <Errors isSettled={document.data !== undefined} />
    </Page>
  )
}

function Reference({ document }: { document: Document }) {
  const [{ find = '', call: opened }] = useAddress()
  const calls = useMemo(() => callsOf(document), [document])
  const words = find.toLowerCase().split(/\s+/).filter(Boolean)
  const found = calls.filter(({ method, path, operation }) =>
    words.every((word) => `${method} ${path} ${operation.summary ?? ''}`.toLowerCase().includes(word)),
  )
  const groups = [...Map.groupBy(found, ({ group }) => group)].sort(
    ([a], [b]) => orderOf(a) - orderOf(b) || (a < b ? -1 : 1),
  )
  const current = calls.find((call) => idOf(call) === opened)
  return (
    <div className="api-page">
      <div className="panel">
        <Find label="Find a call" labelled />
        <nav aria-label="Calls">
          {groups.map(([name, members]) => (
            <details key={name} open={words.length > 0 || members.some((call) => idOf(call) === opened)}>
              <summary>
                {name} <span className="muted">{members.length}</span>
              </summary>
              {members.map((call) => (
                <Link
                  key={idOf(call)}
                  to="/api"
                  search={{ find: find || undefined, call: idOf(call) }}
                  current={idOf(call) === opened}
                >
                  <span className={`method ${call.method}`}>{call.method}</span> {call.path.replace(/^\/api\//, '')}
                </Link>
              ))}
            </details>
          ))}
        </nav>
      </div>
      {current ? (
        <section className="card" key={idOf(current)}>
          <h2>
            <span className={`method ${current.method}`}>{current.method}</span>{' '}
            <span className="mono isolate">{visible(current.path)}</span>
          </h2>
          <p>{current.operation.summary}</p>
          {current.operation.description && <p className="muted">{current.operation.description}</p>}
          {current.operation['x-least-role'] && (
            <p>
              <Badge look="info">{`least role: ${current.operation['x-least-role']}`}</Badge>
            </p>
          )}
          <TryCall document={document} call={current} />
          <h3>Answers</h3>
          <ul>
            {Object.entries(current.operation.responses ?? {}).map(([status, { description }]) => (
              <li key={status}>
                <code>{status}</code> {description}
              </li>
            ))}
          </ul>
        </section>
      ) : (
        <Empty title="Choose a call" icon="book">
          <p>{`${calls.length} calls in ${new Set(calls.map(({ group }) => group)).size} groups.`}</p>
        </Empty>
      )}
    </div>
  )
}
