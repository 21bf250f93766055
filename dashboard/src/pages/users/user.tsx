import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { patch, post, remove, send, sentence } from '../../api/client.ts'
import { useAction, useApi } from '../../api/hooks.ts'
import { startViewAs } from '../../api/view-as.ts'
import { Link, useGo } from '../../app/navigate.tsx'
import { confirm, FormDialog } from '../../parts/dialog.tsx'
import { ago, moment, text } from '../../parts/format.ts'
import { MenuButton } from '../../parts/menu.tsx'
import { Page } from '../../parts/page.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Loaded } from '../../parts/ui.tsx'
import { download } from '../table/rows/export.tsx'
import { type User, UserState } from './page.tsx'

type Session = {
  id: string
  aal: string
  user_agent: string
  ip_address: string
  created_at: string
  last_active_at: string
}
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

export default function UserPage() {
  const { id = '' } = useParams({ strict: false }) as { id?: string }
  const path = `/api/admin/users/${encodeURIComponent(id)}`
  const user = useApi<User>(path)
  const go = useGo()
  const [dialog, setDialog] = useState<'password' | 'edit' | null>(null)
  const changes = ['/api/admin/users']
  const disable = useAction(() => post(`${path}/disable`), { done: 'Disabled: every session ended', changes })
  const enable = useAction(() => post(`${path}/enable`), { done: 'Enabled', changes })
  const drop = useAction(() => remove(path), { done: 'The account is gone', changes })
  const exporting = useAction(async () =>
    download(await (await send<Response>('GET', `${path}/export`, { as: 'response' })).blob(), `user-${id}.json`),
  )
  const name = user.data?.email || user.data?.phone || id
  async function deleteUser(): Promise<void> {
    const isYes = await confirm({
      title: `Delete ${name}?`,
      text: 'The account with its sessions, keys and links is gone, and rows that belong to it by a foreign key.',
      name,
      yes: 'Delete user',
    })
    if (!isYes) return
    await drop.runAsync()
    go('/users')
  }
  return (
    <Page
      title={name}
      crumb={
        <Link to="/users" className="crumb">
          Users /
        </Link>
      }
      badge={user.data && <UserState user={user.data} />}
      actions={
        <>
          <Button
            icon="eye"
            onClick={() =>
              startViewAs({ user_id: id }, name).then(
                () => go('/tables'),
                (error) => toast(sentence(error), { bad: true }),
              )
            }
          >
            View as
          </Button>
          {user.data?.disabled_at ? (
            <Button busy={enable.busy} onClick={() => enable.run()}>
              Enable
            </Button>
          ) : (
            <Button
              look="danger"
              busy={disable.busy}
              onClick={async () => {
                if (
                  await confirm({
                    title: `Disable ${name}?`,
                    text: 'Every session ends, and no sign-in, key or token counts until the account is enabled again.',
                    yes: 'Disable',
                  })
                )
                  disable.run()
              }}
            >
              Disable
            </Button>
          )}
          <MenuButton
            label="More"
            icon="more"
            items={[
              { label: 'Edit', icon: 'edit', run: () => setDialog('edit') },
              { label: 'Set a password', icon: 'key', run: () => setDialog('password') },
              { label: 'Export everything', icon: 'download', run: () => exporting.run() },
              '-',
              { label: 'Delete', icon: 'trash', danger: true, run: () => void deleteUser() },
            ]}
          />
        </>
      }
    >
      <Loaded of={user}>
        {(data) => (
          <section className="card">
            <dl className="facts">
              <dt>Id</dt>
              <dd className="mono">{data.id}</dd>
              <dt>Made</dt>
              <dd>{moment(data.createdAt)}</dd>
              {data.phone && (
                <>
                  <dt>Phone</dt>
                  <dd>{data.phone}</dd>
                </>
              )}
              {data.disabled_at && (
                <>
                  <dt>Disabled</dt>
                  <dd>{moment(data.disabled_at)}</dd>
                </>
              )}
              <dt>metadata</dt>
              <dd className="mono isolate">{text(data.metadata ?? {})}</dd>
              <dt>app_metadata</dt>
              <dd className="mono isolate">{text(data.app_metadata ?? {})}</dd>
            </dl>
          </section>
        )}
      </Loaded>
      <div className="columns">
        <Sessions path={path} />
        <Factors path={path} />
        <Keys id={id} />
        <Audit id={id} />
      </div>
      {dialog === 'password' && (
        <FormDialog
          title="Set a password"
          yes="Set"
          intro={<p className="muted">It ends sessions, grants and own keys.</p>}
          fields={[{ name: 'password', label: 'New password', type: 'password', required: true }]}
          onClose={() => setDialog(null)}
          onSubmit={async ({ password }) => {
            await post(`${path}/password`, { password })
            toast('The password is set')
          }}
        />
      )}
      {dialog === 'edit' && user.data && <EditUser user={user.data} path={path} onClose={() => setDialog(null)} />}
    </Page>
  )
}

function EditUser({ user, path, onClose }: { user: User; path: string; onClose(): void }) {
  const save = useAction((body: unknown) => patch(path, body), {
    done: 'Saved',
    changes: ['/api/admin/users'],
    quiet: true,
  })
  return (
    <FormDialog
      title="Edit the user"
      yes="Save"
      fields={[
        { name: 'email', label: 'Address', type: 'email', value: user.email },
        { name: 'verified', label: 'The address is verified', type: 'check', value: user.emailVerified },
        {
          name: 'metadata',
          label: 'metadata',
          type: 'code',
          value: JSON.stringify(user.metadata ?? {}, null, 2),
          hint: 'The user may change it.',
        },
        {
          name: 'app_metadata',
          label: 'app_metadata',
          type: 'code',
          value: JSON.stringify(user.app_metadata ?? {}, null, 2),
          hint: 'Yours; policies may trust it.',
        },
      ]}
      onClose={onClose}
      onSubmit={(values) =>
        save.runAsync({
          ...(values['email'] !== user.email && { email: values['email'] }),
          email_verified: values['verified'],
          metadata: JSON.parse(String(values['metadata'])),
          app_metadata: JSON.parse(String(values['app_metadata'])),
        })
      }
    />
  )
}

function Sessions({ path }: { path: string }) {
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
                <div className="muted isolate">{session.user_agent}</div>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  )
}

function Factors({ path }: { path: string }) {
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
                <Badge look="info">{factor.method}</Badge> <span className="isolate">{factor.name}</span>{' '}
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

function Keys({ id }: { id: string }) {
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
            <strong>{key.name}</strong> <code>{key.keyPrefix}…</code>{' '}
            {key.revokedAt ? <Badge look="danger">revoked</Badge> : <Badge>{key.scope}</Badge>}
          </li>
        ))}
      </ul>
    </section>
  )
}

function Audit({ id }: { id: string }) {
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
