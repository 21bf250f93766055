import { useState } from 'react'
import { post, remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { Link, useAddress } from '../../app/navigate.tsx'
import { UserBox } from '../../app/view-as-dialog.tsx'
import { confirm, Dialog, FormDialog } from '../../parts/dialog.tsx'
import { ago, visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { Page } from '../../parts/page.tsx'
import { Badge, Button, Empty, Loaded, Note, Snippet, TabPanel, Tabs } from '../../parts/ui.tsx'
import { type App, AppForm, Apps } from './apps.tsx'
import { Clients, NewClient } from './clients.tsx'
import { words } from './words.ts'

type Key = {
  id: string
  userId: string
  name: string
  keyPrefix: string
  scope: string
  allowedTables: string[]
  appId: string | null
  lastUsedAt: string | null
  createdAt: string
  revokedAt: string | null
}
type Person = { id: string; email: string }

const TABS = [
  ['keys', 'API keys'],
  ['apps', 'Apps'],
  ['clients', 'OAuth clients'],
] as const

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
      {isNew && current === 'keys' && (
        <NewKey onClose={close} onKey={(text) => setSecret({ title: 'The new key', text })} />
      )}
      {isNew && current === 'apps' && <AppForm app={null} onClose={close} />}
      {isNew && current === 'clients' && (
        <NewClient onClose={close} onSecret={(text) => setSecret({ title: 'The client’s secret', text })} />
      )}
      {secret && (
        <Dialog
          title={secret.title}
          onClose={() => setSecret(null)}
          foot={<Button onClick={() => setSecret(null)}>I have kept it</Button>}
        >
          <Note warn>It is shown this once. Keep it where secrets are kept.</Note>
          <Snippet label={secret.title} text={secret.text} wrap />
        </Dialog>
      )}
    </Page>
  )
}

function Keys() {
  const keys = useApi<{ items: Key[] }>('/api/admin/api-keys', { perPage: 100 })
  const revoke = useAction((id: string) => remove(`/api/admin/api-keys/${id}`), {
    done: 'The key is revoked',
    changes: ['/api/admin/api-keys'],
  })
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
              ['Name', ({ name }) => <strong className="isolate">{visible(name)}</strong>],
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
                        if (
                          await confirm({
                            title: `Revoke ${key.name}?`,
                            text: 'It is refused everywhere within a second, for good.',
                            yes: 'Revoke',
                          })
                        )
                          revoke.run(key.id)
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
        {
          name: 'appId',
          label: 'App',
          type: 'select',
          options: [['', 'none'], ...(apps.data?.items ?? []).map(({ id, name }) => [id, name] as const)],
        },
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
