import { useState } from 'react'
import { post } from '../../api/client.ts'
import { changed, useApi } from '../../api/hooks.ts'
import { Link, useAddress } from '../../app/navigate.tsx'
import { FormDialog } from '../../parts/dialog.tsx'
import { ago, count, moment } from '../../parts/format.ts'
import { Page } from '../../parts/page.tsx'
import { Pager } from '../../parts/pager.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Empty, Loaded } from '../../parts/ui.tsx'

export type User = {
  id: string
  email: string
  emailVerified: boolean
  is_anonymous: boolean
  createdAt: string
  updatedAt: string
  phone?: string
  disabled_at?: string | null
  metadata?: unknown
  app_metadata?: unknown
}

type Answer = { items: User[]; page: number; totalPages: number; totalItems: number }

export default function UsersPage() {
  const [{ search = '', page = '1', new: making }, go] = useAddress()
  const [typed, setTyped] = useState(search)
  const users = useApi<Answer>('/api/admin/users', { search: search || undefined, page, perPage: 50 })
  return (
    <Page
      title="Users"
      actions={
        <>
          <form
            onSubmit={(event) => {
              event.preventDefault()
              go({ search: typed || undefined, page: undefined })
            }}
          >
            <input
              className="input"
              type="search"
              style={{ width: 220 }}
              aria-label="Search by address"
              placeholder="Search by address"
              value={typed}
              onChange={(event) => setTyped(event.target.value)}
            />
          </form>
          <Button icon="mail" onClick={() => go({ new: 'invite' })}>
            Invite
          </Button>
          <Button look="primary" icon="plus" onClick={() => go({ new: 'create' })}>
            New user
          </Button>
        </>
      }
    >
      <Loaded of={users}>
        {({ items, totalPages, totalItems }) =>
          items.length === 0 ? (
            <Empty title={search ? 'Nobody has such an address' : 'There is no user yet'} icon="users">
              <p>People register through your application; here you can make and invite them.</p>
            </Empty>
          ) : (
            <>
              <div className="table-wrap">
                <table className="table">
                  <thead>
                    <tr>
                      <th>Address</th>
                      <th>State</th>
                      <th>Made</th>
                      <th>Id</th>
                    </tr>
                  </thead>
                  <tbody>
                    {items.map((user) => (
                      <tr key={user.id}>
                        <td>
                          <Link to={`/users/${encodeURIComponent(user.id)}`}>
                            <span className="isolate">{user.email || user.phone || 'without an address'}</span>
                          </Link>
                        </td>
                        <td>
                          <UserState user={user} />
                        </td>
                        <td className="nowrap" title={moment(user.createdAt)}>
                          {ago(user.createdAt)}
                        </td>
                        <td>
                          <code className="muted">{user.id}</code>
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              <Pager
                page={Number(page)}
                pages={totalPages}
                note={`${count(totalItems)} users`}
                onPage={(to) => go({ page: String(to) })}
              />
            </>
          )
        }
      </Loaded>
      {making === 'create' && (
        <FormDialog
          title="New user"
          yes="Create"
          fields={[
            { name: 'email', label: 'Address', type: 'email', required: true },
            { name: 'password', label: 'Password', type: 'password', hint: 'Empty: it is chosen by a reset mail.' },
            { name: 'verified', label: 'The address is verified', type: 'check' },
          ]}
          onClose={() => go({ new: undefined })}
          onSubmit={async ({ email, password, verified }) => {
            await post('/api/admin/users', { email, ...(password && { password }), email_verified: verified })
            await changed('/api/admin/users')
            toast(`${email} is there`)
          }}
        />
      )}
      {making === 'invite' && (
        <FormDialog
          title="Invite a user"
          yes="Send the invitation"
          intro={<p className="muted">A mail lets its owner choose a password, once, for seven days.</p>}
          fields={[{ name: 'email', label: 'Address', type: 'email', required: true }]}
          onClose={() => go({ new: undefined })}
          onSubmit={async ({ email }) => {
            await post('/api/admin/users/invite', { email })
            await changed('/api/admin/users')
            toast(`${email} was invited`)
          }}
        />
      )}
    </Page>
  )
}

export function UserState({ user }: { user: User }) {
  return (
    <span className="row">
      {user.disabled_at && <Badge look="danger">disabled</Badge>}
      {user.is_anonymous ? (
        <Badge>anonymous</Badge>
      ) : user.emailVerified ? (
        <Badge look="ok">verified</Badge>
      ) : (
        <Badge look="warn">not verified</Badge>
      )}
    </span>
  )
}
