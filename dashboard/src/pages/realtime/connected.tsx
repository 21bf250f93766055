import { Link } from '../../app/navigate.tsx'
import { ago, count, moment, plural, visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { Badge, Empty } from '../../parts/ui.tsx'

type Connection = {
  caller: 'visitor' | 'user' | 'key' | 'admin'
  user_id: string | null
  email: string | null
  key_id: string | null
  impersonated_by: string | null
  via: 'stream' | 'websocket'
  since: string
  expires_at: string | null
}
type Member = { user_id: string | null; email: string | null; state: string }

export type Connected = {
  count: number
  connections: Connection[]
  channels: { channel: string; count: number; members: Member[] }[]
}

const CALLERS = { visitor: 'Visitor', user: 'User', key: 'Key', admin: 'Administrator' }
const VIA = { stream: 'event stream', websocket: 'WebSocket' }

/** Who listens, and who is in which channel with which state. */
export function ConnectedTab({ connections, channels, count: all }: Connected) {
  return (
    <>
      <section className="card">
        <h2>Connections</h2>
        {connections.length === 0 ? (
          <Empty title="No connections" icon="live" />
        ) : (
          <List
            label="Connections"
            items={connections.map((one, index) => ({ ...one, index }))}
            keyOf={({ since, index }) => `${since} ${index}`}
            cells={[
              ['Who', (one) => <Caller {...one} />],
              ['Over', ({ via }) => VIA[via]],
              ['Since', ({ since }) => <span title={moment(since)}>{ago(since)}</span>],
              ['Token ends', ({ expires_at }) => moment(expires_at)],
            ]}
          />
        )}
        {all > connections.length && (
          <p className="muted">{`The latest ${count(connections.length)} of ${count(all)}.`}</p>
        )}
      </section>
      <section className="card">
        <h2>Channels</h2>
        {channels.length === 0 ? (
          <p className="muted">
            No channel has a member. Clients join one over the WebSocket; policies on svc.channels say who may.
          </p>
        ) : (
          <List
            label="Channels"
            items={channels}
            keyOf={({ channel }) => channel}
            cells={[
              [
                'Channel',
                ({ channel }) => (
                  <Link to="/realtime" search={{ tab: 'channels', channel }}>
                    <span className="isolate">{visible(channel)}</span>
                  </Link>
                ),
              ],
              ['Members', ({ count: members }) => plural(members, 'member')],
              ['Who is there', (channel) => <Members {...channel} />],
            ]}
          />
        )}
      </section>
    </>
  )
}

function Caller({ caller, user_id, email, key_id, impersonated_by }: Connection) {
  const name = email ?? user_id ?? key_id ?? ''
  return (
    <span className="row">
      <Badge look={caller === 'admin' ? 'info' : ''}>{CALLERS[caller]}</Badge>
      {user_id ? (
        <Link to={`/users/${user_id}`}>
          <span className="isolate">{visible(name)}</span>
        </Link>
      ) : (
        <span className="isolate">{visible(name)}</span>
      )}
      {impersonated_by && <span className="muted isolate">{visible(`by ${impersonated_by}`)}</span>}
    </span>
  )
}

function Members({ members, count: all }: Connected['channels'][number]) {
  return (
    <ul className="panel">
      {members.map(({ user_id, email, state }, index) => (
        <li key={`${user_id} ${index}`}>
          {user_id ? (
            <Link to={`/users/${user_id}`}>
              <span className="isolate">{visible(email ?? user_id)}</span>
            </Link>
          ) : (
            'administrator'
          )}{' '}
          {state !== 'null' && state !== '{}' && <code className="muted isolate">{visible(state)}</code>}
        </li>
      ))}
      {all > members.length && <li className="muted">{`and ${count(all - members.length)} more`}</li>}
    </ul>
  )
}
