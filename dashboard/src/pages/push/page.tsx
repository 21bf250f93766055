import { useState } from 'react'
import { post, remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { Link, useAddress } from '../../app/navigate.tsx'
import { OffsetNav } from '../../app/paged.tsx'
import { UserBox } from '../../app/view-as-dialog.tsx'
import { confirm, FormDialog } from '../../parts/dialog.tsx'
import { ago, visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { Page } from '../../parts/page.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Check, Empty, Loaded, TabPanel, Tabs } from '../../parts/ui.tsx'

type Device = {
  id: string
  app_id: string
  user_id: string
  provider: string
  platform: string
  device_name: string | null
  is_active: boolean
  last_used: string | null
  created_at: string
}
type Delivery = {
  id: string
  user_id: string
  provider: string
  title: string
  body: string
  status: string
  error_message: string | null
  created_at: string
}
type App = { id: string; name: string }

const TABS = [
  ['deliveries', 'Deliveries'],
  ['devices', 'Devices'],
] as const
const LOOKS: Record<string, 'ok' | 'danger' | 'warn' | ''> = { sent: 'ok', failed: 'danger', invalid_token: 'warn' }

export default function PushPage() {
  const [{ tab = 'deliveries' }, go] = useAddress()
  const [isSending, send] = useState(false)
  const current = tab === 'devices' ? 'devices' : 'deliveries'
  return (
    <Page
      title="Push"
      actions={
        <Button look="primary" icon="bell" onClick={() => send(true)}>
          Send
        </Button>
      }
    >
      <Tabs label="Push" tabs={TABS} current={current} onChange={(name) => go({ tab: name, offset: undefined })} />
      <TabPanel name={current}>{current === 'devices' ? <Devices /> : <Deliveries />}</TabPanel>
      {isSending && <SendForm onClose={() => send(false)} />}
    </Page>
  )
}

function SendForm({ onClose }: { onClose(): void }) {
  const apps = useApi<{ items: App[] }>('/api/admin/apps', { perPage: 100 })
  const [user, setUser] = useState<{ id: string; email: string } | null>(null)
  // Before they are there nothing can be typed that their coming would lose.
  if (!apps.data && !apps.error) return null
  return (
    <FormDialog
      title="Send a notification"
      yes="Send"
      intro={<UserBox user={user} onChange={setUser} />}
      fields={[
        {
          name: 'app_id',
          label: 'App',
          type: 'select',
          options: (apps.data?.items ?? []).map(({ id, name }) => [id, name] as const),
        },
        { name: 'title', label: 'Title', required: true },
        { name: 'body', label: 'Text', type: 'area', required: true },
      ]}
      onClose={onClose}
      onSubmit={async ({ app_id, title, body }) => {
        if (!user) throw new Error('Choose a user.')
        await post('/api/admin/push/send', { app_id, user_id: user.id, title, body })
        await changed('/api/admin/push')
        toast('On its way')
      }}
    />
  )
}

function Deliveries() {
  const [{ offset = '0' }] = useAddress()
  const list = useApi<{ items: Delivery[] }>('/api/admin/push/deliveries', { limit: 50, offset }, { every: 5_000 })
  return (
    <Loaded of={list}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty title="Nothing was sent yet" icon="bell">
            <p>A message goes to every device of a user; each delivery is listed here.</p>
          </Empty>
        ) : (
          <>
            <List
              label="Deliveries"
              items={items}
              keyOf={({ id }) => id}
              cells={[
                [
                  'Title',
                  ({ title, body }) => [
                    <strong key="t" className="isolate">
                      {visible(title)}
                    </strong>,
                    <div key="b" className="muted isolate">
                      {visible(body)}
                    </div>,
                  ],
                ],
                ['To', ({ user_id }) => <Link to={`/users/${user_id}`}>{user_id.slice(0, 8)}…</Link>],
                ['By', ({ provider }) => provider],
                [
                  'State',
                  ({ status, error_message }) => [
                    <Badge key="s" look={LOOKS[status] ?? ''}>
                      {status}
                    </Badge>,
                    <div key="e" className="code-del">
                      {error_message}
                    </div>,
                  ],
                ],
                ['When', ({ created_at }) => ago(created_at), 'nowrap'],
              ]}
            />
            <OffsetNav limit={50} shown={items.length} />
          </>
        )
      }
    </Loaded>
  )
}

function Devices() {
  const [isAll, setAll] = useState(false)
  const list = useApi<{ items: Device[] }>('/api/admin/push/devices', {
    include_inactive: isAll || undefined,
    limit: 200,
  })
  const drop = useAction((id: string) => remove(`/api/admin/push/devices/${id}`), {
    done: 'Nothing is sent to it any more',
    changes: ['/api/admin/push'],
  })
  return (
    <>
      <Check label="Inactive ones too" checked={isAll} onChange={setAll} />
      <Loaded of={list}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="There is no device yet" icon="bell">
              <p>Apps register theirs for the user who is signed in.</p>
            </Empty>
          ) : (
            <List
              label="Devices"
              items={items}
              keyOf={({ id }) => id}
              cells={[
                [
                  'Device',
                  ({ device_name, platform }) => (
                    <strong className="isolate">{visible(device_name ?? platform)}</strong>
                  ),
                ],
                ['Of', ({ user_id }) => <Link to={`/users/${user_id}`}>{user_id.slice(0, 8)}…</Link>],
                ['By', ({ provider }) => provider],
                [
                  'State',
                  ({ is_active }) => <Badge look={is_active ? 'ok' : ''}>{is_active ? 'active' : 'inactive'}</Badge>,
                ],
                ['Last used', ({ last_used }) => ago(last_used), 'nowrap'],
                [
                  '',
                  (device) => (
                    <Button
                      look="quiet small"
                      icon="trash"
                      aria-label="Send to it no more"
                      onClick={async () => {
                        if (await confirm({ title: 'Send to this device no more?', yes: 'Remove' })) drop.run(device.id)
                      }}
                    />
                  ),
                  'end',
                ],
              ]}
            />
          )
        }
      </Loaded>
    </>
  )
}
