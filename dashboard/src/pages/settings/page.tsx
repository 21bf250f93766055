import { useState } from 'react'
import { useAddress } from '../../app/navigate.tsx'
import { ApiError, patch, post, remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { useSql } from '../../api/sql.ts'
import { confirm, Dialog, FormDialog } from '../../parts/dialog.tsx'
import { ago, bytes, duration, text } from '../../parts/format.ts'
import { type Cells, List } from '../../parts/list.tsx'
import { Page } from '../../parts/page.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Check, Empty, Field, Loaded, Snippet } from '../../parts/ui.tsx'

type Stats = { version: string; node_version: string; uptime_seconds: number; memory_sys: number; db_pool_total: number; db_pool_max: number }
type Admin = { id: string; email: string; name?: string; role: string; mfa?: boolean; createdAt?: string; created_at?: string }
type Setting = { key: string; value: unknown; source: string; description?: string }

const SWITCHES: Record<string, string> = {
  magic_link_enabled: 'Sign in by a link in a mail',
  email_mfa_enabled: 'Second factor: codes by mail',
  anonymous_auth_enabled: 'Accounts without credentials',
  totp_enabled: 'Second factor: authenticator apps',
  webauthn_enabled: 'Passkeys',
  sms_enabled: 'Sign in and codes by SMS',
}

export default function SettingsPage() {
  const [{ find = '' }, go] = useAddress()
  return (
    <Page
      title="Settings"
      actions={<input className="input" style={{ width: 240 }} aria-label="Find a setting" placeholder="Find a setting" value={find} onChange={(event) => go({ find: event.target.value || undefined }, { replace: true })} />}
    >
      <div className="columns">
        <Version />
        <AuthSettings />
      </div>
      <Admins />
      <Secrets />
      <Backups />
      <Configuration find={find} />
    </Page>
  )
}

function Version() {
  const stats = useApi<Stats>('/api/admin/stats', {}, { every: 10_000 })
  const database = useSql("select version(), current_database(), pg_size_pretty(pg_database_size(current_database()))", { fresh: 60_000 })
  const [version, name, size] = database.data?.rows[0] ?? []
  return (
    <section className="card">
      <h2>Version</h2>
      <Loaded of={stats}>
        {(data) => (
          <dl className="facts">
            <dt>Savanna</dt>
            <dd>{data.version}</dd>
            <dt>Node.js</dt>
            <dd>{data.node_version}</dd>
            <dt>Running for</dt>
            <dd>{duration(data.uptime_seconds * 1000)}</dd>
            <dt>Memory</dt>
            <dd>{bytes(data.memory_sys)}</dd>
            <dt>Connections</dt>
            <dd>
              {data.db_pool_total} of {data.db_pool_max}
            </dd>
            <dt>PostgreSQL</dt>
            <dd>{text(version).split(' on ')[0] || '–'}</dd>
            <dt>Database</dt>
            <dd>
              {text(name) || '–'} {size ? `(${size})` : ''}
            </dd>
          </dl>
        )}
      </Loaded>
    </section>
  )
}

function AuthSettings() {
  const settings = useApi<Record<string, boolean>>('/api/admin/auth-settings')
  const save = useAction((next: Record<string, boolean>) => patch('/api/admin/auth-settings', next), { done: 'In force on all servers within a second', changes: ['/api/admin/auth-settings'] })
  return (
    <section className="card">
      <h2>Signing in</h2>
      <p className="muted">What may be changed while the server runs.</p>
      <Loaded of={settings}>
        {(data) => (
          <div className="panel">
            {Object.entries(data).map(([name, isOn]) => (
              <Check key={name} label={SWITCHES[name] ?? name} checked={isOn} disabled={save.busy} onChange={(next) => save.run({ ...data, [name]: next })} />
            ))}
          </div>
        )}
      </Loaded>
    </section>
  )
}

function Admins() {
  const admins = useApi<{ items: Admin[] }>('/api/admin/admins')
  const [dialog, setDialog] = useState<'new' | 'factor' | null>(null)
  const drop = useAction((id: string) => remove(`/api/admin/admins/${id}`), { done: 'Gone, with the tokens', changes: ['/api/admin/admins'] })
  return (
    <section className="card">
      <div className="card-head">
        <h2>Administrators</h2>
        <span className="row">
          <Button look="small" icon="shield" onClick={() => setDialog('factor')}>
            My second factor
          </Button>
          <Button look="small" icon="plus" onClick={() => setDialog('new')}>
            Add
          </Button>
        </span>
      </div>
      <Loaded of={admins}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="muted">Only the shared password. Administrators with names of their own have roles, second factors and their name in the audit.</p>
          ) : (
            <List
              label="Administrators"
              items={items}
              keyOf={({ id }) => id}
              cells={[
                ['Name', ({ name, email }) => [<strong key="n" className="isolate">{name || email}</strong>, <div key="e" className="muted isolate">{email}</div>]],
                ['Role', ({ role }) => <Badge look="info">{role}</Badge>],
                ['Second factor', ({ mfa }) => (mfa ? <Badge look="ok">yes</Badge> : <Badge look="warn">no</Badge>)],
                ['Made', (admin) => ago(admin.createdAt ?? admin.created_at), 'nowrap'],
                [
                  '',
                  (admin) => (
                    <Button
                      look="small danger"
                      onClick={async () => {
                        if (await confirm({ title: `Remove ${admin.email}?`, text: 'The tokens end within a second everywhere.', yes: 'Remove' })) drop.run(admin.id)
                      }}
                    >
                      Remove
                    </Button>
                  ),
                  'end',
                ],
              ]}
            />
          )
        }
      </Loaded>
      {dialog === 'new' && (
        <FormDialog
          title="Add an administrator"
          yes="Add"
          fields={[
            { name: 'email', label: 'Address', type: 'email', required: true },
            { name: 'name', label: 'Name' },
            { name: 'password', label: 'Password', type: 'password', required: true },
            {
              name: 'role',
              label: 'Role',
              type: 'select',
              options: [
                ['viewer', 'viewer: reads'],
                ['operator', 'operator: all but administrators, secrets, SQL and data'],
                ['owner', 'owner: everything'],
              ],
            },
          ]}
          onClose={() => setDialog(null)}
          onSubmit={async (values) => {
            await post('/api/admin/admins', { ...values, ...(values['name'] === '' && { name: undefined }) })
            await changed('/api/admin/admins')
            toast('Added')
          }}
        />
      )}
      {dialog === 'factor' && <Factor onClose={() => setDialog(null)} />}
    </section>
  )
}

function Factor({ onClose }: { onClose(): void }) {
  const [secret, setSecret] = useState<{ uri: string; secret: string } | null>(null)
  const [code, setCode] = useState('')
  const begin = useAction(async () => setSecret(await post('/api/admin/mfa/totp/enroll')))
  const confirmCode = useAction(() => post('/api/admin/mfa/totp/enroll/confirm', { code: code.trim() }), { done: 'From now on your sign-in needs a code' })
  return (
    <Dialog
      title="My second factor"
      onClose={onClose}
      onSubmit={() => void (secret ? confirmCode.runAsync().then(onClose, () => undefined) : begin.run())}
      foot={
        <Button type="submit" look="primary" busy={begin.busy || confirmCode.busy}>
          {secret ? 'Confirm' : 'Begin'}
        </Button>
      }
    >
      <p>An authenticator app makes a code for each sign-in of yours. The shared password has none: sign in with an account of your own.</p>
      {secret && (
        <>
          <Snippet label="Secret for the app" text={secret.secret} />
          <Snippet label="As an address" text={secret.uri} wrap />
          <Field label="Code of the app">{(props) => <input className="input" inputMode="numeric" autoComplete="one-time-code" {...props} value={code} onChange={(event) => setCode(event.target.value)} />}</Field>
        </>
      )}
    </Dialog>
  )
}

function Secrets() {
  const rotate = useAction(() => post('/api/admin/secrets/rotate'), { done: 'Every user token and session ended' })
  return (
    <section className="card">
      <div className="card-head">
        <h2>Keys of tokens</h2>
        <Button
          look="danger small"
          busy={rotate.busy}
          onClick={async () => {
            if (await confirm({ title: 'Rotate the secrets?', text: 'Every user token, session and pending sign-in ends on all servers within a second.', name: 'rotate', yes: 'Rotate' })) rotate.run()
          }}
        >
          Rotate
        </Button>
      </div>
      <p className="muted">Ends every user’s session, for when a key may be known to somebody. Administrators’ tokens, API keys and OAuth tokens stay.</p>
    </section>
  )
}

/** What a server does not have yet is said, never a dead end. */
const isMissing = (error: unknown): boolean => error instanceof ApiError && error.status === 404

function Backups() {
  const backups = useApi<{ items: Record<string, unknown>[] }>('/api/admin/backups')
  const items = backups.data?.items ?? []
  return (
    <section className="card">
      <h2>Backups</h2>
      {isMissing(backups.error) ? (
        <>
          <p className="muted">This server makes none by itself. PostgreSQL’s own tool makes one of everything it keeps:</p>
          <Snippet label="Backup" text="pg_dump --format=custom --file=backup.dump $DATABASE_URL" />
        </>
      ) : (
        <Loaded of={backups}>
          {() =>
            items.length === 0 ? (
              <p className="muted">There is none yet.</p>
            ) : (
              <List label="Backups" items={items} keyOf={(item) => text(item['id'] ?? item)} cells={Object.keys(items[0] ?? {}).slice(0, 6).map((name): Cells<Record<string, unknown>>[number] => [name, (item) => text(item[name])])} />
            )
          }
        </Loaded>
      )}
    </section>
  )
}

function Configuration({ find }: { find: string }) {
  const settings = useApi<{ items: Setting[] }>('/api/admin/config')
  const fits = (settings.data?.items ?? []).filter(({ key }) => key.toLowerCase().includes(find.toLowerCase()))
  return (
    <section className="card">
      <h2>Effective configuration</h2>
      {isMissing(settings.error) ? (
        <>
          <p className="muted">Set in svc.toml, the environment and flags. On the server’s machine:</p>
          <Snippet label="Configuration" text="svc config" />
        </>
      ) : (
        <Loaded of={settings}>
          {() =>
            fits.length === 0 ? (
              <Empty title="No setting is called that" icon="settings" />
            ) : (
              <List
                label="Configuration"
                items={fits}
                keyOf={({ key }) => key}
                cells={[
                  ['Key', ({ key }) => <code>{key}</code>],
                  ['Value', ({ value }) => <code className="isolate">{text(value)}</code>],
                  ['From', ({ source }) => <Badge look={source === 'default' ? '' : 'info'}>{source}</Badge>],
                ]}
              />
            )
          }
        </Loaded>
      )}
    </section>
  )
}
