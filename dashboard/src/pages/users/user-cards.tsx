import { remove } from '../../api/client.ts'
import { useAction, useApi } from '../../api/hooks.ts'
import { Link } from '../../app/navigate.tsx'
import { confirm } from '../../parts/dialog.tsx'
import { ago, visible } from '../../parts/format.ts'
import { Badge, Button, Loaded } from '../../parts/ui.tsx'

type Session = {
  id: string
  aal: string
  user_agent: string
  ip_address: string
  created_at: string
  last_active_at: string
}
type Provider = { id: string; provider: string; subject: string; created_at: string; ended_at?: string }
type Factor = { id: string; method: string; name: string; created_at: string }
type Entry = { id: string | number; timestamp: string; actor: string; action: string; target?: string }
type Key = {
  id: string
  name: string
  keyPrefix: string
  scope: string
  lastUsedAt: string | null
  revokedAt: string | null
  userId: string
}

export function Sessions({ path }: { path: string }) {
  const sessions = useApi<Session[]>(`${path}/sessions`)
  const end = useAction(() => remove(`${path}/sessions`), { done: 'All sessions ended', changes: [path] })
  return (
    <section className="card">
      <div className="card-head">
        <h2>Sessions</h2>
        <Button look="small" busy={end.busy} onClick={() => end.run()}>
          End all
        </Button>
      </div>
      <Loaded of={sessions}>
        {(all) => (
          <ul className="panel">
            {all.length === 0 && <li className="muted">Signed in nowhere.</li>}
            {all.map((session) => (
              <li key={session.id}>
                <Badge>{session.aal}</Badge> {ago(session.last_active_at)} from {session.ip_address}
                <div className="muted isolate">{visible(session.user_agent)}</div>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  )
}

export function Factors({ path }: { path: string }) {
  const factors = useApi<Factor[]>(`${path}/factors`)
  const drop = useAction((id: string) => remove(`${path}/factors/${encodeURIComponent(id)}`), {
    done: 'The factor is gone, and every session ended',
    changes: [path],
  })
  return (
    <section className="card">
      <h2>Factors and passkeys</h2>
      <Loaded of={factors}>
        {(all) => (
          <ul className="panel">
            {all.length === 0 && <li className="muted">No second factor and no passkey.</li>}
            {all.map((factor) => (
              <li key={factor.id} className="row">
                <Badge look="info">{factor.method}</Badge> <span className="isolate">{visible(factor.name)}</span>{' '}
                <span className="muted">{ago(factor.created_at)}</span>
                <span className="grow" />
                <Button
                  look="quiet small"
                  icon="trash"
                  aria-label={`Remove ${factor.method}`}
                  onClick={async () => {
                    if (
                      await confirm({
                        title: 'Remove this factor?',
                        text: 'For somebody who lost it. Every session ends.',
                        yes: 'Remove',
                      })
                    )
                      drop.run(factor.id)
                  }}
                />
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  )
}

/** Accounts elsewhere by which they sign in. */
export function Providers({ path }: { path: string }) {
  const providers = useApi<Provider[]>(`${path}/providers`)
  const drop = useAction((id: string) => remove(`${path}/providers/${encodeURIComponent(id)}`), {
    done: 'The provider is gone, and every session ended',
    changes: [path],
  })
  return (
    <section className="card">
      <h2>Providers</h2>
      <Loaded of={providers}>
        {(all) => (
          <ul className="panel">
            {all.length === 0 && <li className="muted">Signs in by no other service.</li>}
            {all.map(({ id, provider, subject, created_at: since, ended_at: ended }) => (
              <li key={id} className="row">
                <Badge look="info">{provider}</Badge> <code className="isolate">{visible(subject)}</code>{' '}
                <span className="muted">{ended === undefined ? ago(since) : `ended by a reset ${ago(ended)}`}</span>
                <span className="grow" />
                <Button
                  look="quiet small"
                  icon="trash"
                  aria-label={`Remove ${provider}`}
                  onClick={async () => {
                    if (
                      await confirm({
                        title: 'Remove this provider?',
                        text: 'They sign in by it no more. Every session ends.',
                        yes: 'Remove',
                      })
                    )
                      drop.run(id)
                  }}
                />
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  )
}

export function Organizations({ path }: { path: string }) {
  const organizations = useApi<{ id: string; name: string; role: string; created_at: string }[]>(
    `${path}/organizations`,
  )
  return (
    <section className="card">
      <h2>Organizations</h2>
      <Loaded of={organizations}>
        {(all) => (
          <ul className="panel">
            {all.length === 0 && <li className="muted">Member of none.</li>}
            {all.map(({ id, name, role, created_at: since }) => (
              <li key={id}>
                <strong className="isolate">{visible(name)}</strong> <Badge>{role}</Badge>{' '}
                <span className="muted">{ago(since)}</span> <code className="muted">{id}</code>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  )
}

export function Keys({ id }: { id: string }) {
  const keys = useApi<{ items: Key[] }>('/api/admin/api-keys', { perPage: 100 })
  const own = keys.data?.items.filter(({ userId }) => userId === id) ?? []
  return (
    <section className="card">
      <div className="card-head">
        <h2>API keys</h2>
        <Link to="/keys">All keys</Link>
      </div>
      <ul className="panel">
        {own.length === 0 && <li className="muted">None.</li>}
        {own.map((key) => (
          <li key={key.id}>
            <strong>{visible(key.name)}</strong> <code>{key.keyPrefix}…</code>{' '}
            {key.revokedAt ? <Badge look="danger">revoked</Badge> : <Badge>{key.scope}</Badge>}
          </li>
        ))}
      </ul>
    </section>
  )
}

export function Audit({ id }: { id: string }) {
  const audit = useApi<{ items: Entry[] }>('/api/admin/audit', { user_id: id, limit: 20 })
  return (
    <section className="card">
      <div className="card-head">
        <h2>What they did</h2>
        <Link to="/audit" search={{ user_id: id }}>
          All of it
        </Link>
      </div>
      <Loaded of={audit}>
        {({ items }) => (
          <ul className="panel">
            {items.length === 0 && <li className="muted">Nothing in the audit.</li>}
            {items.map((entry) => (
              <li key={String(entry.id)}>
                <code>{entry.action}</code> <span className="muted">{ago(entry.timestamp)}</span>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  )
}
