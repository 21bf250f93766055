import { useState } from 'react'
import { post, put, remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { confirm, FormDialog, type FormField, type Values } from '../../parts/dialog.tsx'
import { visible } from '../../parts/format.ts'
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
  postLogoutRedirectUris: string[]
  backchannelLogoutUri: string | null
  revokedAt?: string | null
}

export function Clients({ onSecret }: { onSecret(secret: string): void }) {
  const clients = useApi<{ items: Client[] }>('/api/admin/oauth/clients', { perPage: 100 })
  const changes = ['/api/admin/oauth']
  const [edited, setEdited] = useState<Client | null>(null)
  const drop = useAction((id: string) => remove(`/api/admin/oauth/clients/${encodeURIComponent(id)}`), {
    done: 'The client and its tokens are revoked',
    changes,
  })
  const rotate = useAction(
    (id: string) => post<{ clientSecret: string }>(`/api/admin/oauth/clients/${encodeURIComponent(id)}/rotate-secret`),
    { changes },
  )
  return (
    <>
      {edited && <EditClient client={edited} onClose={() => setEdited(null)} />}
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
                      {visible(name)}
                    </strong>,
                    <div key="i">
                      <code className="muted">{clientId}</code>
                    </div>,
                  ],
                ],
                ['Kind', ({ clientType }) => clientType ?? '–'],
                [
                  'Returns to',
                  ({ redirectUris }) => <span className="isolate">{visible(redirectUris.join(', '))}</span>,
                ],
                [
                  'After a logout',
                  ({ postLogoutRedirectUris: after, backchannelLogoutUri: told }) => (
                    <span className="isolate">
                      {visible([...after, ...(told ? [`tells ${told}`] : [])].join(', ')) || '–'}
                    </span>
                  ),
                ],
                ['Scopes', ({ scopes }) => scopes.join(', ')],
                [
                  '',
                  (client) => (
                    <MenuButton
                      label={`More of ${client.name}`}
                      look="quiet small"
                      icon="more"
                      items={[
                        { label: 'Edit', icon: 'edit', run: () => setEdited(client) },
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
    </>
  )
}

/** What a client has that may be changed later. */
const addressFields = (client?: Client): FormField[] => [
  {
    name: 'redirectUris',
    label: 'Returns to',
    required: true,
    placeholder: 'https://example.com/callback',
    hint: 'Where people go with their code; several with spaces between.',
    value: client?.redirectUris.join(' ') ?? '',
  },
  { name: 'scopes', label: 'Scopes', value: client?.scopes.join(' ') ?? 'readonly' },
  {
    name: 'postLogoutRedirectUris',
    label: 'After a logout',
    placeholder: 'https://example.com/bye',
    hint: 'Where a browser may go when its session has ended; several with spaces between.',
    value: client?.postLogoutRedirectUris.join(' ') ?? '',
  },
  {
    name: 'backchannelLogoutUri',
    label: 'Tell of a logout',
    type: 'url',
    placeholder: 'https://example.com/backchannel-logout',
    hint: 'The server calls this address when a session of the client ends.',
    value: client?.backchannelLogoutUri ?? '',
  },
]

const bodyOf = (values: Values) => ({
  name: values['name'],
  redirectUris: words(values['redirectUris']),
  scopes: words(values['scopes']),
  postLogoutRedirectUris: words(values['postLogoutRedirectUris']),
  ...(values['backchannelLogoutUri'] && { backchannelLogoutUri: values['backchannelLogoutUri'] }),
})

function EditClient({ client, onClose }: { client: Client; onClose(): void }) {
  return (
    <FormDialog
      title={`Edit ${client.name}`}
      yes="Save"
      intro={<p className="muted">Grants of scopes that are taken away end.</p>}
      fields={[{ name: 'name', label: 'Name', required: true, value: client.name }, ...addressFields(client)]}
      onClose={onClose}
      onSubmit={async (values) => {
        await put(`/api/admin/oauth/clients/${encodeURIComponent(client.clientId)}`, bodyOf(values))
        await changed('/api/admin/oauth')
      }}
    />
  )
}

export function NewClient({ onClose, onSecret }: { onClose(): void; onSecret(secret: string): void }) {
  const apps = useApi<{ items: App[] }>('/api/admin/apps', { perPage: 100 })
  // Before they are there nothing can be typed that their coming would lose.
  if (!apps.data && !apps.error) return null
  return (
    <FormDialog
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
        ...addressFields(),
      ]}
      onClose={onClose}
      onSubmit={async (values) => {
        const { appId, clientType } = values
        const body = { appId, clientType, ...bodyOf(values) }
        const { clientSecret } = await post<{ clientSecret?: string }>('/api/admin/oauth/clients', body)
        await changed('/api/admin/oauth')
        if (clientSecret) onSecret(clientSecret)
        else toast('The client is there')
      }}
    />
  )
}
