import { useState } from 'react'
import { post, put, remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { UserBox } from '../../app/view-as-dialog.tsx'
import { confirm, FormDialog } from '../../parts/dialog.tsx'
import { ago, visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { MenuButton } from '../../parts/menu.tsx'
import { toast } from '../../parts/toast.tsx'
import { Empty, Loaded } from '../../parts/ui.tsx'

export type App = {
  id: string
  name: string
  description: string
  ownerUserId: string | null
  rateLimitRps: number
  rateLimitWindowSeconds: number
  createdAt: string
}
type Person = { id: string; email: string }

export function Apps() {
  const apps = useApi<{ items: App[] }>('/api/admin/apps', { perPage: 100 })
  const [edited, setEdited] = useState<App | null>(null)
  const drop = useAction((id: string) => remove(`/api/admin/apps/${id}`), {
    done: 'The app is gone, its keys are revoked',
    changes: ['/api/admin/apps', '/api/admin/api-keys'],
  })
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
                [
                  'Name',
                  ({ name, description }) => [
                    <strong key="n">{visible(name)}</strong>,
                    <div key="d" className="muted">
                      {visible(description)}
                    </div>,
                  ],
                ],
                [
                  'Limit',
                  (app) =>
                    app.rateLimitRps === 0 ? 'none' : `${app.rateLimitRps} in ${app.rateLimitWindowSeconds || 60} s`,
                ],
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
                            if (
                              await confirm({
                                title: `Delete ${app.name}?`,
                                text: 'Its keys are revoked.',
                                name: app.name,
                                yes: 'Delete app',
                              })
                            )
                              drop.run(app.id)
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

export function AppForm({ app, onClose }: { app: App | null; onClose(): void }) {
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
