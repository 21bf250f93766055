import { useInfiniteQuery } from '@tanstack/react-query'
import { dataCore, post, send } from '../../api/client.ts'
import { changed, useAction } from '../../api/hooks.ts'
import { confirm } from '../../parts/dialog.tsx'
import { ago, moment, text, visible } from '../../parts/format.ts'
import { oneLine } from '../../parts/grid/value.tsx'
import { Badge, Button, ErrorLine, Loading } from '../../parts/ui.tsx'

export type Change = {
  id: string | number
  transaction: string
  at: string
  action: 'create' | 'update' | 'delete'
  table: string
  key: unknown
  actor: unknown
  request_id: string | null
  undoes?: unknown
  changes: Record<string, { old?: unknown; new?: unknown }>
}

type Undone = { changes: Change['id'][] } | { request_id: string | null }

type Answer = { items: Change[]; nextCursor: string | null }

const ONE_CHANGE = 'The inverse is written, and can be undone in turn.'
const WHOLE_REQUEST =
  'Everything that the request wrote is taken back in one transaction, in all its tables, and can be undone in turn.'

const LOOKS = { create: 'ok', update: 'info', delete: 'danger' } as const

const actorOf = (actor: unknown): string => {
  if (actor === null || actor === undefined) return 'unknown'
  if (typeof actor !== 'object') return String(actor)
  const { email, user_id, kind, admin } = actor as Record<string, unknown>
  return String(email ?? admin ?? user_id ?? kind ?? JSON.stringify(actor))
}

/** Who changed what, newest first, each with its undo. */
export function ChangeList({ path, query = {} }: { path: string; query?: Record<string, unknown> }) {
  const { data, error, hasNextPage, fetchNextPage, isFetching } = useInfiniteQuery({
    queryKey: [path, query],
    queryFn: ({ pageParam, signal }) =>
      send<Answer>('GET', path, { query: { ...query, ...(pageParam && { cursor: pageParam }) } }, { signal }, dataCore),
    // A copy of a value would no longer know what it was read from.
    structuralSharing: false,
    initialPageParam: '',
    getNextPageParam: (last) => last.nextCursor ?? undefined,
  })
  const undo = useAction((what: Undone) => post('/api/admin/undo', what), { done: 'Undone', changes: ['/api/'] })
  const ask = async (what: Undone, title: string, detail: string): Promise<void> => {
    if (await confirm({ title, text: detail, yes: 'Undo', danger: false })) undo.run(what)
  }
  const all = data?.pages.flatMap(({ items }) => items) ?? []
  if (error) return <ErrorLine error={error} />
  if (!data) return <Loading />
  if (all.length === 0)
    return <p className="muted">Nothing is in the log. It has what the API wrote, and all changes of watched tables.</p>
  return (
    <>
      <ol className="panel">
        {all.map((change) => (
          <li key={String(change.id)} className="change">
            <div className="row">
              <Badge look={LOOKS[change.action]}>{change.action}</Badge>
              <span className="when" title={moment(change.at)}>
                {ago(change.at)} by <span className="isolate">{visible(actorOf(change.actor))}</span>
                {change.undoes ? ', an undo' : ''}
              </span>
              <span className="grow" />
              {change.request_id && (
                <Button
                  look="quiet small"
                  icon="undo"
                  busy={undo.busy}
                  title={`Request ${change.request_id}`}
                  onClick={() => ask({ request_id: change.request_id }, 'Undo the whole request?', WHOLE_REQUEST)}
                >
                  Undo its request
                </Button>
              )}
              <Button
                look="quiet small"
                icon="undo"
                busy={undo.busy}
                onClick={() => ask({ changes: [change.id] }, 'Undo this change?', ONE_CHANGE)}
              >
                Undo
              </Button>
            </div>
            <div className="muted mono">{text(change.key)}</div>
            <ul>
              {Object.entries(change.changes ?? {})
                .slice(0, 30)
                .map(([column, { old, new: next }]) => (
                  <li key={column} className="isolate">
                    <strong>{visible(column)}</strong> {old !== undefined && <del>{shown(old)}</del>}{' '}
                    {next !== undefined && <ins>{shown(next)}</ins>}
                  </li>
                ))}
            </ul>
          </li>
        ))}
      </ol>
      {hasNextPage && (
        <Button busy={isFetching} onClick={() => void fetchNextPage().then(() => changed())}>
          Earlier
        </Button>
      )}
    </>
  )
}

const shown = (value: unknown): string => (value === null ? 'NULL' : value === '' ? '“”' : oneLine(value))
