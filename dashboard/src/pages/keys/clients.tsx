import { post, remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { confirm, FormDialog } from '../../parts/dialog.tsx'
import { List } from '../../parts/list.tsx'
import { MenuButton } from '../../parts/menu.tsx'
import { toast } from '../../parts/toast.tsx'
import { Empty, Loaded } from '../../parts/ui.tsx'
import type { App } from './apps.tsx'
import { words } from './words.ts'

type Client = {
  id?: string
  clientId: string
  appId: string
  name: string
  clientType?: string
  redirectUris: string[]
  scopes: string[]
  revokedAt?: string | null
}

export function Clients({ onSecret }: { onSecret(secret: string): void }) {
  const clients = useApi<{ items: Client[] }>('/api/admin/oauth/clients', { perPage: 100 })
  const changes = ['/api/admin/oauth']
  const drop = useAction((id: string) => remove(`/api/admin/oauth/clients/${encodeURIComponent(id)}`), {
    done: 'The client and its tokens are revoked',
    changes,
  })
  const rotate = useAction(
    (id: string) => post<{ clientSecret: string }>(`/api/admin/oauth/clients/${encodeURIComponent(id)}/rotate-secret`),
    { changes },
  )
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
              [
                'Name',
                ({ name, clientId }) => [
                  <strong key="n" className="isolate">
                    {name}
                  </strong>,
                  <div key="i">
                    <code className="muted">{clientId}</code>
                  </div>,
                ],
              ],
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
                      {
                        label: 'New secret',
                        icon: 'refresh',
                        run: () =>
                          void rotate.runAsync(client.clientId).then(
                            ({ clientSecret }) => onSecret(clientSecret),
                            () => undefined,
                          ),
                      },
                      {
                        label: 'Revoke',
                        icon: 'trash',
                        danger: true,
                        run: async () => {
                          if (
                            await confirm({
                              title: `Revoke ${client.name}?`,
                              text: 'With all its tokens.',
                              yes: 'Revoke',
                            })
                          )
                            drop.run(client.clientId)
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

export function NewClient({ onClose, onSecret }: { onClose(): void; onSecret(secret: string): void }) {
  const apps = useApi<{ items: App[] }>('/api/admin/apps', { perPage: 100 })
  return (
    <FormDialog
      key={String(apps.data === undefined)}
      title="New client"
      yes="Create"
      fields={[
        {
          name: 'appId',
          label: 'App',
          type: 'select',
          options: (apps.data?.items ?? []).map(({ id, name }) => [id, name] as const),
          hint: 'Make an app first if there is none.',
        },
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
