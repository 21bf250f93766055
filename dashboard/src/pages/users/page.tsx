import { post } from '../../api/client.ts'
import { changed, useApi } from '../../api/hooks.ts'
import { Find } from '../../app/find.tsx'
import { Link, useAddress } from '../../app/navigate.tsx'
import { PageNav } from '../../app/paged.tsx'
import { FormDialog } from '../../parts/dialog.tsx'
import { ago, moment, plural, visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { Page } from '../../parts/page.tsx'
import { useSettled } from '../../parts/settled.ts'
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
  const users = useApi<Answer>('/api/admin/users', { search: useSettled(search) || undefined, page, perPage: 50 })
  return (
    <Page
      title="Users"
      actions={
        <>
          <Find label="Search by address" name="search" />
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
            totalItems > 0 ? (
              <Empty title="There are fewer pages" icon="users">
                <Button onClick={() => go({ page: String(totalPages) })}>Last page</Button>
              </Empty>
            ) : (
              <Empty title={search ? 'Nobody has such an address' : 'There is no user yet'} icon="users">
                <p>People register through your application; here you can make and invite them.</p>
              </Empty>
            )
          ) : (
            <>
              <List
                label="Users"
                items={items}
                keyOf={({ id }) => id}
                cells={[
                  [
                    'Address',
                    (user) => (
                      <Link to={`/users/${encodeURIComponent(user.id)}`}>
                        <span className="isolate">{visible(user.email || user.phone || 'without an address')}</span>
                      </Link>
                    ),
                  ],
                  ['State', (user) => <UserState user={user} />],
                  ['Made', ({ createdAt }) => <span title={moment(createdAt)}>{ago(createdAt)}</span>, 'nowrap'],
                  ['Id', ({ id }) => <code className="muted">{id}</code>, 'nowrap'],
                ]}
              />
              <PageNav pages={totalPages} note={plural(totalItems, 'user')} />
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
