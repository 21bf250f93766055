import { useState } from 'react'
import { post, remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { confirm, Dialog, FormDialog } from '../../parts/dialog.tsx'
import { ago, visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Field, Loaded, Snippet } from '../../parts/ui.tsx'

type Admin = {
  id: string
  email: string
  name?: string
  role: string
  mfa?: boolean
  createdAt?: string
  created_at?: string
}

export function Admins() {
  const admins = useApi<{ items: Admin[] }>('/api/admin/admins')
  const [dialog, setDialog] = useState<'new' | 'factor' | null>(null)
  const drop = useAction((id: string) => remove(`/api/admin/admins/${id}`), {
    done: 'Gone, with the tokens',
    changes: ['/api/admin/admins'],
  })
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
            <p className="muted">
              Only the shared password. Administrators with names of their own have roles, second factors and their name
              in the audit.
            </p>
          ) : (
            <List
              label="Administrators"
              items={items}
              keyOf={({ id }) => id}
              cells={[
                [
                  'Name',
                  ({ name, email }) => [
                    <strong key="n" className="isolate">
                      {visible(name || email)}
                    </strong>,
                    <div key="e" className="muted isolate">
                      {visible(email)}
                    </div>,
                  ],
                ],
                ['Role', ({ role }) => <Badge look="info">{role}</Badge>],
                ['Second factor', ({ mfa }) => (mfa ? <Badge look="ok">yes</Badge> : <Badge look="warn">no</Badge>)],
                ['Made', (admin) => ago(admin.createdAt ?? admin.created_at), 'nowrap'],
                [
                  '',
                  (admin) => (
                    <Button
                      look="small danger"
                      onClick={async () => {
                        if (
                          await confirm({
                            title: `Remove ${admin.email}?`,
                            text: 'The tokens end within a second everywhere.',
                            yes: 'Remove',
                          })
                        )
                          drop.run(admin.id)
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
  const confirmCode = useAction(() => post('/api/admin/mfa/totp/enroll/confirm', { code: code.trim() }), {
    done: 'From now on your sign-in needs a code',
  })
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
      <p>
        An authenticator app makes a code for each sign-in of yours. The shared password has none: sign in with an
        account of your own.
      </p>
      {secret && (
        <>
          <Snippet label="Secret for the app" text={secret.secret} />
          <Snippet label="As an address" text={secret.uri} wrap />
          <Field label="Code of the app">
            {(props) => (
              <input
                className="input"
                inputMode="numeric"
                autoComplete="one-time-code"
                {...props}
                value={code}
                onChange={(event) => setCode(event.target.value)}
              />
            )}
          </Field>
        </>
      )}
    </Dialog>
  )
}
