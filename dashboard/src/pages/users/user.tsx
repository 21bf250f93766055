import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiError, patch, post, remove, send } from '../../api/client.ts'
import { useAction, useApi } from '../../api/hooks.ts'
import { startViewAs } from '../../api/view-as.ts'
import { Link, useGo } from '../../app/navigate.tsx'
import { confirm, FormDialog } from '../../parts/dialog.tsx'
import { moment, text, visible } from '../../parts/format.ts'
import { MenuButton } from '../../parts/menu.tsx'
import { Page } from '../../parts/page.tsx'
import { failed, toast } from '../../parts/toast.tsx'
import { Button, Empty, Loaded } from '../../parts/ui.tsx'
import { download } from '../table/rows/export.tsx'
import { type User, UserState } from './page.tsx'
import { Audit, Factors, Keys, Organizations, Providers, Sessions } from './user-cards.tsx'

const ALL_USERS = (
  <Link to="/users" className="crumb">
    Users /
  </Link>
)

export default function UserPage() {
  const { id = '' } = useParams({ strict: false }) as { id?: string }
  const path = `/api/admin/users/${encodeURIComponent(id)}`
  const user = useApi<User>(path)
  const go = useGo()
  const [dialog, setDialog] = useState<'password' | 'edit' | null>(null)
  const changes = ['/api/admin/users']
  const disable = useAction(() => post(`${path}/disable`), { done: 'Disabled: every session ended', changes })
  const enable = useAction(() => post(`${path}/enable`), { done: 'Enabled', changes })
  const drop = useAction(() => remove(path), { done: 'The account is gone', changes })
  const exporting = useAction(async () =>
    download(await (await send<Response>('GET', `${path}/export`, { as: 'response' })).blob(), `user-${id}.json`),
  )
  const name = user.data?.email || user.data?.phone || id
  if (user.error instanceof ApiError && [400, 404].includes(user.error.status))
    return (
      <Page title={id} crumb={ALL_USERS}>
        <Empty title="There is no such user" icon="user">
          <p>The account may have been deleted; what it did is still in the audit.</p>
          <div className="row">
            <Link to="/users" className="button">
              All users
            </Link>
            <Link to="/audit" search={{ user_id: id }} className="button">
              Audit
            </Link>
          </div>
        </Empty>
      </Page>
    )
  async function deleteUser(): Promise<void> {
    const isYes = await confirm({
      title: `Delete ${name}?`,
      text: 'The account with its sessions, keys and links is gone, and rows that belong to it by a foreign key.',
      name,
      yes: 'Delete user',
    })
    if (!isYes) return
    await drop.runAsync()
    go('/users')
  }
  return (
    <Page
      title={name}
      crumb={ALL_USERS}
      badge={user.data && <UserState user={user.data} />}
      actions={
        <>
          <Button icon="eye" onClick={() => startViewAs({ user_id: id }, name).then(() => go('/tables'), failed)}>
            View as
          </Button>
          {user.data?.disabled_at ? (
            <Button busy={enable.busy} onClick={() => enable.run()}>
              Enable
            </Button>
          ) : (
            <Button
              look="danger"
              busy={disable.busy}
              onClick={async () => {
                if (
                  await confirm({
                    title: `Disable ${name}?`,
                    text: 'Every session ends, and no sign-in, key or token counts until the account is enabled again.',
                    yes: 'Disable',
                  })
                )
                  disable.run()
              }}
            >
              Disable
            </Button>
          )}
          <MenuButton
            label="More"
            icon="more"
            items={[
              { label: 'Edit', icon: 'edit', run: () => setDialog('edit') },
              { label: 'Set a password', icon: 'key', run: () => setDialog('password') },
              { label: 'Export everything', icon: 'download', run: () => exporting.run() },
              '-',
              { label: 'Delete', icon: 'trash', danger: true, run: () => void deleteUser() },
            ]}
          />
        </>
      }
    >
      <Loaded of={user}>
        {(data) => (
          <section className="card">
            <dl className="facts">
              <dt>Id</dt>
              <dd className="mono">{data.id}</dd>
              <dt>Made</dt>
              <dd>{moment(data.createdAt)}</dd>
              {data.phone && (
                <>
                  <dt>Phone</dt>
                  <dd>{data.phone}</dd>
                </>
              )}
              {data.disabled_at && (
                <>
                  <dt>Disabled</dt>
                  <dd>{moment(data.disabled_at)}</dd>
                </>
              )}
              <dt>metadata</dt>
              <dd className="mono isolate">{visible(text(data.metadata ?? {}))}</dd>
              <dt>app_metadata</dt>
              <dd className="mono isolate">{visible(text(data.app_metadata ?? {}))}</dd>
            </dl>
          </section>
        )}
      </Loaded>
      <div className="columns">
        <Sessions path={path} />
        <Factors path={path} />
        <Providers path={path} />
        <Organizations path={path} />
        <Keys id={id} />
        <Audit id={id} />
      </div>
      {dialog === 'password' && (
        <FormDialog
          title="Set a password"
          yes="Set"
          intro={<p className="muted">It ends sessions, grants and own keys.</p>}
          fields={[{ name: 'password', label: 'New password', type: 'password', required: true }]}
          onClose={() => setDialog(null)}
          onSubmit={async ({ password }) => {
            await post(`${path}/password`, { password })
            toast('The password is set')
          }}
        />
      )}
      {dialog === 'edit' && user.data && <EditUser user={user.data} path={path} onClose={() => setDialog(null)} />}
    </Page>
  )
}

function EditUser({ user, path, onClose }: { user: User; path: string; onClose(): void }) {
  const save = useAction((body: unknown) => patch(path, body), {
    done: 'Saved',
    changes: ['/api/admin/users'],
    quiet: true,
  })
  return (
    <FormDialog
      title="Edit the user"
      yes="Save"
      fields={[
        { name: 'email', label: 'Address', type: 'email', value: user.email },
        { name: 'verified', label: 'The address is verified', type: 'check', value: user.emailVerified },
        {
          name: 'metadata',
          label: 'metadata',
          type: 'code',
          value: JSON.stringify(user.metadata ?? {}, null, 2),
          hint: 'The user may change it.',
        },
        {
          name: 'app_metadata',
          label: 'app_metadata',
          type: 'code',
          value: JSON.stringify(user.app_metadata ?? {}, null, 2),
          hint: 'Yours; policies may trust it.',
        },
      ]}
      onClose={onClose}
      onSubmit={(values) =>
        save.runAsync({
          ...(values['email'] !== user.email && { email: values['email'] }),
          email_verified: values['verified'],
          metadata: JSON.parse(String(values['metadata'])),
          app_metadata: JSON.parse(String(values['app_metadata'])),
        })
      }
    />
  )
}
