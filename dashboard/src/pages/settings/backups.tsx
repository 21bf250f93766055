import { post, remove } from '../../api/client.ts'
import { useAction, useApi } from '../../api/hooks.ts'
import { confirm } from '../../parts/dialog.tsx'
import { ago, bytes } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { Badge, Button, Loaded, Snippet } from '../../parts/ui.tsx'
import { isMissing } from './missing.ts'

type Backup = {
  id: string
  state?: string
  server?: string
  status?: string
  size_bytes?: number
  bytes?: number
  started_at?: string
  created_at?: string
  verified_at?: string | null
  error?: string | null
}

export function Backups() {
  const backups = useApi<{ items: Backup[]; verified_at?: string | null; server?: string }>('/api/admin/backups')
  const changes = ['/api/admin/backups', '/api/admin/jobs']
  const take = useAction(() => post('/api/admin/backups', {}), { done: 'A backup is under way', changes })
  const verify = useAction((id: string) => post(`/api/admin/backups/${encodeURIComponent(id)}/verify`), {
    done: 'It is restored into a scratch directory and checked',
    changes,
  })
  const drop = useAction((id: string) => remove(`/api/admin/backups/${encodeURIComponent(id)}`), {
    done: 'The backup is gone',
    changes,
  })
  const isThere = !isMissing(backups.error)
  return (
    <section className="card">
      <div className="card-head">
        <h2>Backups</h2>
        {isThere && (
          <Button look="small" icon="plus" busy={take.busy} onClick={() => take.run()}>
            Back up now
          </Button>
        )}
      </div>
      {isThere ? (
        <Loaded of={backups}>
          {({ items, verified_at, server }) => (
            <>
              <p className="muted">
                {verified_at
                  ? `One was last found good, by restoring it, ${ago(verified_at)}.`
                  : 'None was found good by restoring it yet.'}
              </p>
              {items.length > 0 && (
                <List
                  label="Backups"
                  items={items}
                  keyOf={({ id }) => id}
                  cells={[
                    ['Backup', ({ id }) => <code>{id}</code>],
                    [
                      'State',
                      ({ state, status, error, server: owner }) => [
                        <Badge key="s" look={error ? 'danger' : 'info'}>
                          {state === 'sealed' ? 'sealed with another key' : (state ?? status ?? 'kept')}
                        </Badge>,
                        owner && owner !== server && (
                          <Badge key="o" look="info">
                            of another server
                          </Badge>
                        ),
                        <div key="e" className="code-del">
                          {error}
                        </div>,
                      ],
                    ],
                    ['Size', ({ size_bytes, bytes: size }) => bytes(Number(size_bytes ?? size ?? 0)), 'num'],
                    ['Begun', ({ started_at, created_at }) => ago(started_at ?? created_at), 'nowrap'],
                    [
                      '',
                      ({ id }) => (
                        <span className="row">
                          <Button look="small" onClick={() => verify.run(id)}>
                            Verify
                          </Button>
                          <Button
                            look="small danger"
                            onClick={async () => {
                              if (await confirm({ title: 'Delete this backup?', text: id, yes: 'Delete' })) drop.run(id)
                            }}
                          >
                            Delete
                          </Button>
                        </span>
                      ),
                      'end',
                    ],
                  ]}
                />
              )}
            </>
          )}
        </Loaded>
      ) : (
        <>
          <p className="muted">
            This server takes none by itself. PostgreSQL’s own tool makes one of everything it keeps:
          </p>
          <Snippet label="Backup" text="pg_dump --format=custom --file=backup.dump $DATABASE_URL" />
        </>
      )}
    </section>
  )
}
