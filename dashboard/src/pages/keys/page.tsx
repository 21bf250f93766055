import { useState } from 'react'
import { Link, useAddress } from '../../app/navigate.tsx'
import { UserBox } from '../../app/view-as-dialog.tsx'
import { post, put, remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { confirm, Dialog, FormDialog } from '../../parts/dialog.tsx'
import { ago } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { MenuButton } from '../../parts/menu.tsx'
import { Page } from '../../parts/page.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Empty, Loaded, Note, Snippet, TabPanel, Tabs } from '../../parts/ui.tsx'

type Key = { id: string; userId: string; name: string; keyPrefix: string; scope: string; allowedTables: string[]; appId: string | null; lastUsedAt: string | null; createdAt: string; revokedAt: string | null }
type App = { id: string; name: string; description: string; ownerUserId: string | null; rateLimitRps: number; rateLimitWindowSeconds: number; createdAt: string }
type Client = { id?: string; clientId: string; appId: string; name: string; clientType?: string; redirectUris: string[]; scopes: string[]; revokedAt?: string | null }
type Person = { id: string; email: string }

const TABS = [
  ['keys', 'API keys'],
  ['apps', 'Apps'],
  ['clients', 'OAuth clients'],
] as const

const words = (value: unknown): string[] =>
  String(value ?? '')
    .split(/[\s,]+/)
    .filter(Boolean)

export default function KeysPage() {
  const [{ tab = 'keys' }, go] = useAddress()
  const [isNew, setNew] = useState(false)
  const [secret, setSecret] = useState<{ title: string; text: string } | null>(null)
  const current = TABS.find(([id]) => id === tab)?.[0] ?? 'keys'
  const close = (): void => setNew(false)
  const title = { keys: 'New key', apps: 'New app', clients: 'New client' }[current]
  return (
    <Page
      title="Keys and apps"
      actions={
        <Button look="primary" icon="plus" onClick={() => setNew(true)}>
          {title}
        </Button>
      }
    >
      <Tabs label="Keys and apps" tabs={TABS} current={current} onChange={(id) => go({ tab: id })} />
      <TabPanel name={current}>
        {current === 'keys' && <Keys />}
        {current === 'apps' && <Apps />}
        {current === 'clients' && <Clients onSecret={(text) => setSecret({ title: 'The new secret', text })} />}
      </TabPanel>
      {isNew && current === 'keys' && <NewKey onClose={close} onKey={(text) => setSecret({ title: 'The new key', text })} />}
      {isNew && current === 'apps' && <AppForm app={null} onClose={close} />}
      {isNew && current === 'clients' && <NewClient onClose={close} onSecret={(text) => setSecret({ title: 'The client’s secret', text })} />}
      {secret && (
        <Dialog title={secret.title} onClose={() => setSecret(null)} foot={<Button onClick={() => setSecret(null)}>I have kept it</Button>}>
          <Note warn>It is shown this once. Keep it where secrets are kept.</Note>
          <Snippet label={secret.title} text={secret.text} wrap />
        </Dialog>
      )}
    </Page>
  )
}

function Keys() {
  const keys = useApi<{ items: Key[] }>('/api/admin/api-keys', { perPage: 100 })
  const revoke = useAction((id: string) => remove(`/api/admin/api-keys/${id}`), { done: 'The key is revoked', changes: ['/api/admin/api-keys'] })
  return (
    <Loaded of={keys}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty title="There is no key yet" icon="key">
            <p>A key acts as its user, with the tables and the scope you choose.</p>
          </Empty>
        ) : (
          <List
            label="API keys"
            items={items}
            keyOf={({ id }) => id}
            cells={[
              ['Name', ({ name }) => <strong className="isolate">{name}</strong>],
              ['Key', ({ keyPrefix }) => <code>{keyPrefix}…</code>],
              ['Acts as', ({ userId }) => <Link to={`/users/${userId}`}>{userId.slice(0, 8)}…</Link>],
              ['Scope', ({ scope }) => <Badge>{scope === '*' ? 'everything' : scope}</Badge>],
              ['Tables', ({ allowedTables }) => (allowedTables?.length ? allowedTables.join(', ') : 'all')],
              ['Last used', ({ lastUsedAt }) => ago(lastUsedAt), 'nowrap'],
              [
                '',
                (key) =>
                  key.revokedAt ? (
                    <Badge look="danger">revoked</Badge>
                  ) : (
                    <Button
                      look="small danger"
                      onClick={async () => {
                        if (await confirm({ title: `Revoke ${key.name}?`, text: 'It is refused everywhere within a second, for good.', yes: 'Revoke' })) revoke.run(key.id)
                      }}
                    >
                      Revoke
                    </Button>
                  ),
                'end',
              ],
            ]}
          />
        )
      }
    </Loaded>
  )
}

function NewKey({ onClose, onKey }: { onClose(): void; onKey(key: string): void }) {
  const [user, setUser] = useState<Person | null>(null)
  const apps = useApi<{ items: App[] }>('/api/admin/apps', { perPage: 100 })
  return (
    <FormDialog
      title="New key"
      yes="Make the key"
      intro={<UserBox label="Acts as" user={user} onChange={setUser} />}
      fields={[
        { name: 'name', label: 'Name', required: true },
        {
          name: 'scope',
          label: 'Scope',
          type: 'select',
          options: [
            ['readonly', 'read only'],
            ['readwrite', 'read and write'],
            ['*', 'everything'],
          ],
        },
        { name: 'tables', label: 'Tables', placeholder: 'all' },
        { name: 'appId', label: 'App', type: 'select', options: [['', 'none'], ...(apps.data?.items ?? []).map(({ id, name }) => [id, name] as const)] },
      ]}
      onClose={onClose}
      onSubmit={async ({ name, scope, tables, appId }) => {
        if (!user) throw new Error('Choose the user that the key acts as.')
        const body = { userId: user.id, name, scope, allowedTables: words(tables), ...(appId && { appId }) }
        const { key } = await post<{ key: string }>('/api/admin/api-keys', body)
        await changed('/api/admin/api-keys')
        onKey(key)
      }}
    />
  )
}

function Apps() {
  const apps = useApi<{ items: App[] }>('/api/admin/apps', { perPage: 100 })
  const [edited, setEdited] = useState<App | null>(null)
  const drop = useAction((id: string) => remove(`/api/admin/apps/${id}`), { done: 'The app is gone, its keys are revoked', changes: ['/api/admin/apps', '/api/admin/api-keys'] })
  return (
    <>
      <Loaded of={apps}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="There is no app yet" icon="cube">
              <p>An app gathers keys and OAuth clients under one rate limit and one line of usage.</p>
            </Empty>
          ) : (
            <List
              label="Apps"
              items={items}
              keyOf={({ id }) => id}
              cells={[
                ['Name', ({ name, description }) => [<strong key="n">{name}</strong>, <div key="d" className="muted">{description}</div>]],
                ['Limit', (app) => (app.rateLimitRps === 0 ? 'none' : `${app.rateLimitRps} in ${app.rateLimitWindowSeconds || 60} s`)],
                ['Made', ({ createdAt }) => ago(createdAt), 'nowrap'],
                [
                  '',
                  (app) => (
                    <MenuButton
                      label={`More of ${app.name}`}
                      look="quiet small"
                      icon="more"
                      items={[
                        { label: 'Edit', icon: 'edit', run: () => setEdited(app) },
                        {
                          label: 'Delete',
                          icon: 'trash',
                          danger: true,
                          run: async () => {
                            if (await confirm({ title: `Delete ${app.name}?`, text: 'Its keys are revoked.', name: app.name, yes: 'Delete app' })) drop.run(app.id)
                          },
                        },
                      ]}
                    />
                  ),
                  'end',
                ],
              ]}
            />
          )
        }
      </Loaded>
      {edited && <AppForm app={edited} onClose={() => setEdited(null)} />}
    </>
  )
}

function AppForm({ app, onClose }: { app: App | null; onClose(): void }) {
  const [owner, setOwner] = useState<Person | null>(null)
  return (
    <FormDialog
      title={app ? `App ${app.name}` : 'New app'}
      yes={app ? 'Save' : 'Create'}
      intro={app ? undefined : <UserBox label="Owner" user={owner} onChange={setOwner} />}
      fields={[
        { name: 'name', label: 'Name', required: true, value: app?.name ?? '' },
        { name: 'description', label: 'Description', value: app?.description ?? '' },
        { name: 'rps', label: 'Requests', type: 'number', value: String(app?.rateLimitRps ?? 0), hint: '0 = no limit' },
        { name: 'window', label: 'within seconds', type: 'number', value: String(app?.rateLimitWindowSeconds ?? 60) },
      ]}
      onClose={onClose}
      onSubmit={async ({ name, description, rps, window: seconds }) => {
        const body = { name, description, rateLimitRps: Number(rps), rateLimitWindowSeconds: Number(seconds) }
        if (app) await put(`/api/admin/apps/${app.id}`, body)
        else if (owner) await post('/api/admin/apps', { ...body, ownerUserId: owner.id })
        else throw new Error('Choose the owner.')
        await changed('/api/admin/apps')
        toast('Saved')
      }}
    />
  )
}

function Clients({ onSecret }: { onSecret(secret: string): void }) {
  const clients = useApi<{ items: Client[] }>('/api/admin/oauth/clients', { perPage: 100 })
  const changes = ['/api/admin/oauth']
  const drop = useAction((id: string) => remove(`/api/admin/oauth/clients/${encodeURIComponent(id)}`), { done: 'The client and its tokens are revoked', changes })
  const rotate = useAction((id: string) => post<{ clientSecret: string }>(`/api/admin/oauth/clients/${encodeURIComponent(id)}/rotate-secret`), { changes })
  return (
    <Loaded of={clients}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty title="There is no OAuth client yet" icon="globe">
            <p>Other applications ask your users for access with one.</p>
          </Empty>
        ) : (
          <List
            label="OAuth clients"
            items={items}
            keyOf={({ clientId }) => clientId}
            cells={[
              ['Name', ({ name, clientId }) => [<strong key="n" className="isolate">{name}</strong>, <div key="i"><code className="muted">{clientId}</code></div>]],
              ['Kind', ({ clientType }) => clientType ?? '–'],
              ['Returns to', ({ redirectUris }) => <span className="isolate">{redirectUris.join(', ')}</span>],
              ['Scopes', ({ scopes }) => scopes.join(', ')],
              [
                '',
                (client) => (
                  <MenuButton
                    label={`More of ${client.name}`}
                    look="quiet small"
                    icon="more"
                    items={[
                      { label: 'New secret', icon: 'refresh', run: () => void rotate.runAsync(client.clientId).then(({ clientSecret }) => onSecret(clientSecret), () => undefined) },
                      {
                        label: 'Revoke',
                        icon: 'trash',
                        danger: true,
                        run: async () => {
                          if (await confirm({ title: `Revoke ${client.name}?`, text: 'With all its tokens.', yes: 'Revoke' })) drop.run(client.clientId)
                        },
                      },
                    ]}
                  />
                ),
                'end',
              ],
            ]}
          />
        )
      }
    </Loaded>
  )
}

function NewClient({ onClose, onSecret }: { onClose(): void; onSecret(secret: string): void }) {
  const apps = useApi<{ items: App[] }>('/api/admin/apps', { perPage: 100 })
  return (
    <FormDialog
      key={String(apps.data === undefined)}
      title="New client"
      yes="Create"
      fields={[
        { name: 'appId', label: 'App', type: 'select', options: (apps.data?.items ?? []).map(({ id, name }) => [id, name] as const), hint: 'Make an app first if there is none.' },
        { name: 'name', label: 'Name', required: true },
        {
          name: 'clientType',
          label: 'Kind',
          type: 'select',
          options: [
            ['confidential', 'confidential: a server with a secret'],
            ['public', 'public: an app without one'],
          ],
        },
        { name: 'redirectUris', label: 'Returns to', required: true, placeholder: 'https://example.com/callback' },
        { name: 'scopes', label: 'Scopes', value: 'readonly' },
      ]}
      onClose={onClose}
      onSubmit={async (values) => {
        const body = { ...values, redirectUris: words(values['redirectUris']), scopes: words(values['scopes']) }
        const { clientSecret } = await post<{ clientSecret?: string }>('/api/admin/oauth/clients', body)
        await changed('/api/admin/oauth')
        if (clientSecret) onSecret(clientSecret)
        else toast('The client is there')
      }}
    />
  )
}
