import { patch, post } from '../../api/client.ts'
import { useFigures } from '../../api/figures.ts'
import { useAction, useApi } from '../../api/hooks.ts'
import { Find } from '../../app/find.tsx'
import { useAddress } from '../../app/navigate.tsx'
import { confirm } from '../../parts/dialog.tsx'
import { bytes, duration, text, visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { Page } from '../../parts/page.tsx'
import { Badge, Button, Check, Empty, Loaded } from '../../parts/ui.tsx'
import { Admins } from './admins.tsx'
import { Backups } from './backups.tsx'

type Stats = {
  version: string
  node_version: string
  uptime_seconds: number
  memory_sys: number
  db_pool_total: number
  db_pool_max: number
}
type Setting = {
  key: string
  meaning: string
  value?: unknown
  is_set: boolean
  source: string
  changeable?: boolean
}

const SWITCHES: Record<string, string> = {
  magic_link_enabled: 'Sign in by a link in a mail',
  email_mfa_enabled: 'Second factor: codes by mail',
  anonymous_auth_enabled: 'Accounts without credentials',
  totp_enabled: 'Second factor: authenticator apps',
  webauthn_enabled: 'Passkeys',
  sms_enabled: 'Sign in and codes by SMS',
}

export default function SettingsPage() {
  const [{ find = '' }] = useAddress()
  return (
    <Page title="Settings" actions={<Find label="Find a setting" />}>
      {find && <Configuration find={find} />}
      <div className="columns">
        <Version />
        <AuthSettings />
      </div>
      <Admins />
      <Secrets />
      <Backups />
      {!find && <Configuration find="" />}
    </Page>
  )
}

function Version() {
  const stats = useApi<Stats>('/api/admin/stats', {}, { every: 10_000 })
  const { database } = useFigures()
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
            <dd>{database?.version ?? '–'}</dd>
            <dt>Database</dt>
            <dd>
              <span className="isolate">{visible(database?.name ?? '–')}</span>{' '}
              {database && `(${bytes(database.size)})`}
            </dd>
          </dl>
        )}
      </Loaded>
    </section>
  )
}

function AuthSettings() {
  const settings = useApi<Record<string, boolean>>('/api/admin/auth-settings')
  const save = useAction((next: Record<string, boolean>) => patch('/api/admin/auth-settings', next), {
    done: 'In force on all servers within a second',
    changes: ['/api/admin/auth-settings'],
  })
  return (
    <section className="card">
      <h2>Signing in</h2>
      <p className="muted">What may be changed while the server runs.</p>
      <Loaded of={settings}>
        {(data) => (
          <div className="panel">
            {Object.entries(data).map(([name, isOn]) => (
              <Check
                key={name}
                label={SWITCHES[name] ?? name}
                checked={isOn}
                disabled={save.busy}
                onChange={(next) => save.run({ ...data, [name]: next })}
              />
            ))}
          </div>
        )}
      </Loaded>
    </section>
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
            if (
              await confirm({
                title: 'Rotate the secrets?',
                text: 'Every user token, session and pending sign-in ends on all servers within a second.',
                name: 'rotate',
                yes: 'Rotate',
              })
            )
              rotate.run()
          }}
        >
          Rotate
        </Button>
      </div>
      <p className="muted">
        Ends every user’s session, for when a key may be known to somebody. Administrators’ tokens, API keys and OAuth
        tokens stay.
      </p>
    </section>
  )
}

function Configuration({ find }: { find: string }) {
  const settings = useApi<{ items: Setting[] }>('/api/admin/config')
  const words = find.toLowerCase()
  const fits = (settings.data?.items ?? []).filter(({ key, meaning }) =>
    `${key} ${meaning}`.toLowerCase().includes(words),
  )
  return (
    <section className="card">
      <h2>Effective configuration</h2>
      <p className="muted">
        From svc.toml, the environment (SVC_…) and flags of svc start; what comes later wins. A value that may be a
        secret is only said to be set.
      </p>
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
                [
                  'Key',
                  ({ key, meaning }) => [
                    <code key="key">{key}</code>,
                    <div key="meaning" className="muted">
                      {meaning}
                    </div>,
                  ],
                ],
                ['Value', (setting) => <SettingValue setting={setting} />],
                [
                  'From',
                  ({ source, changeable }) => [
                    <Badge key="source" look={source === 'default' ? '' : 'info'}>
                      {source}
                    </Badge>,
                    changeable && <Badge key="changeable">may change at run time</Badge>,
                  ],
                ],
              ]}
            />
          )
        }
      </Loaded>
    </section>
  )
}

function SettingValue({ setting: { value, is_set: isSet } }: { setting: Setting }) {
  if (value === undefined) return <span className="muted">{isSet ? 'set' : 'not set'}</span>
  if (value === '') return <span className="muted">empty</span>
  return <code className="isolate">{visible(text(value))}</code>
}
