import { useState } from 'react'
import { patch, post, remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { useSchema } from '../../api/schema.ts'
import { useAddress } from '../../app/navigate.tsx'
import { confirm, Dialog, FormDialog } from '../../parts/dialog.tsx'
import { ago, duration, moment, visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { MenuButton } from '../../parts/menu.tsx'
import { Page } from '../../parts/page.tsx'
import { Pager } from '../../parts/pager.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Check, Empty, Loaded, Snippet } from '../../parts/ui.tsx'

type Hook = {
  id: string
  url: string
  hasSecret: boolean
  events: string[]
  tables: string[]
  enabled: boolean
  createdAt: string
}
type Delivery = {
  id: string
  eventId: string
  eventAction: string
  eventTable: string
  success: boolean
  statusCode?: number
  attempt: number
  durationMs: number
  error?: string
  requestBody: string
  responseBody: string
  deliveredAt: string
}
type Tried = { success: boolean; statusCode?: number; durationMs: number; error?: string }

const PATH = '/api/webhooks'

export default function WebhooksPage() {
  const [{ hook: opened }, go] = useAddress()
  const hooks = useApi<{ items?: Hook[] } | Hook[]>(PATH)
  const [edited, setEdited] = useState<Hook | 'new' | null>(null)
  const changes = [PATH]
  const toggle = useAction(({ id, enabled }: Hook) => patch(`${PATH}/${id}`, { enabled: !enabled }), { changes })
  const drop = useAction(({ id }: Hook) => remove(`${PATH}/${id}`), { done: 'The webhook is gone', changes })
  const test = useAction(({ id }: Hook) => post<Tried>(`${PATH}/${id}/test`), {
    done: ({ success, statusCode, error, durationMs }) =>
      success ? `Answered ${statusCode} in ${duration(durationMs)}` : `Failed: ${error ?? statusCode}`,
  })
  return (
    <Page
      title="Webhooks"
      note="Changes of rows, sent to an address of yours, signed and tried again until it answers."
      actions={
        <Button look="primary" icon="plus" onClick={() => setEdited('new')}>
          New webhook
        </Button>
      }
    >
      <Loaded of={hooks}>
        {(answer) => {
          const items = Array.isArray(answer) ? answer : (answer.items ?? [])
          if (items.length === 0)
            return (
              <Empty title="There is no webhook yet" icon="hook">
                <p>A webhook calls an address of yours when rows of the tables you choose change.</p>
              </Empty>
            )
          return (
            <List
              label="Webhooks"
              items={items}
              keyOf={({ id }) => id}
              cells={[
                [
                  'Address',
                  (hook) => (
                    <button type="button" className="field-value" onClick={() => go({ hook: hook.id })}>
                      <strong className="isolate">{visible(hook.url)}</strong>
                    </button>
                  ),
                ],
                ['Tables', ({ tables }) => (tables.length === 0 ? 'all' : tables.join(', '))],
                ['Events', ({ events }) => (events.length === 0 ? 'all' : events.join(', '))],
                [
                  'State',
                  ({ enabled, hasSecret }) => [
                    enabled ? (
                      <Badge key="on" look="ok">
                        on
                      </Badge>
                    ) : (
                      <Badge key="off">off</Badge>
                    ),
                    ' ',
                    hasSecret ? (
                      <Badge key="s" look="info">
                        signed
                      </Badge>
                    ) : null,
                  ],
                ],
                [
                  '',
                  (hook) => (
                    <span className="row">
                      <Button look="small" onClick={() => go({ hook: hook.id })}>
                        Deliveries
                      </Button>
                      <MenuButton
                        label={`More of ${hook.url}`}
                        look="quiet small"
                        icon="more"
                        items={[
                          { label: 'Test now', icon: 'play', run: () => test.run(hook) },
                          { label: 'Edit', icon: 'edit', run: () => setEdited(hook) },
                          {
                            label: hook.enabled ? 'Switch off' : 'Switch on',
                            icon: 'bolt',
                            run: () => toggle.run(hook),
                          },
                          '-',
                          {
                            label: 'Delete',
                            icon: 'trash',
                            danger: true,
                            run: async () => {
                              if (
                                await confirm({
                                  title: 'Delete this webhook?',
                                  text: `${hook.url}, and what still waits for it.`,
                                  yes: 'Delete',
                                })
                              )
                                drop.run(hook)
                            },
                          },
                        ]}
                      />
                    </span>
                  ),
                  'end',
                ],
              ]}
            />
          )
        }}
      </Loaded>
      {edited && <HookForm hook={edited === 'new' ? null : edited} onClose={() => setEdited(null)} />}
      {opened && <Deliveries id={opened} onClose={() => go({ hook: undefined })} />}
    </Page>
  )
}

function HookForm({ hook, onClose }: { hook: Hook | null; onClose(): void }) {
  const { schema } = useSchema()
  const words = (value: unknown): string[] =>
    String(value ?? '')
      .split(/[\s,]+/)
      .filter(Boolean)
  return (
    <FormDialog
      title={hook ? 'Edit the webhook' : 'New webhook'}
      yes={hook ? 'Save' : 'Create'}
      fields={[
        {
          name: 'url',
          label: 'Address',
          type: 'url',
          required: true,
          value: hook?.url ?? '',
          placeholder: 'https://example.com/hook',
        },
        {
          name: 'secret',
          label: 'Secret',
          hint: hook?.hasSecret ? 'Empty: it stays.' : 'Signs every request. whsec_… or any text.',
        },
        {
          name: 'tables',
          label: 'Tables',
          value: hook?.tables.join(', ') ?? '',
          placeholder: 'all',
          hint: `Such as ${[...(schema?.tables.keys() ?? ['posts'])].slice(0, 3).join(', ')}`,
        },
        {
          name: 'create',
          label: 'When rows are made',
          type: 'check',
          value: !hook || hook.events.length === 0 || hook.events.includes('create'),
        },
        {
          name: 'update',
          label: 'When rows change',
          type: 'check',
          value: !hook || hook.events.length === 0 || hook.events.includes('update'),
        },
        {
          name: 'delete',
          label: 'When rows go',
          type: 'check',
          value: !hook || hook.events.length === 0 || hook.events.includes('delete'),
        },
      ]}
      onClose={onClose}
      onSubmit={async (values) => {
        const events = ['create', 'update', 'delete'].filter((name) => values[name])
        const body = {
          url: values['url'],
          ...(values['secret'] && { secret: values['secret'] }),
          tables: words(values['tables']),
          events,
        }
        await (hook ? patch(`${PATH}/${hook.id}`, body) : post(PATH, body))
        await changed(PATH)
        toast(hook ? 'Saved' : 'The webhook is there')
      }}
    />
  )
}

function Deliveries({ id, onClose }: { id: string; onClose(): void }) {
  const [failedOnly, setFailedOnly] = useState(false)
  const [page, setPage] = useState(1)
  const [shown, setShown] = useState<string | null>(null)
  const path = `${PATH}/${encodeURIComponent(id)}/deliveries`
  const list = useApi<{ items: Delivery[]; totalPages: number; totalItems: number }>(
    path,
    { page, perPage: 25, failed_only: failedOnly || undefined },
    { every: 3_000 },
  )
  const replay = useAction((delivery: Delivery) => post(`${path}/${delivery.id}/replay`), {
    done: 'Sent again',
    changes: [path],
  })
  return (
    <Dialog title="Deliveries" look="side-panel" onClose={onClose}>
      <Check label="Failed only" checked={failedOnly} onChange={setFailedOnly} />
      <Loaded of={list}>
        {({ items, totalPages, totalItems }) => (
          <>
            {items.length === 0 && (
              <p className="muted">Nothing was sent yet. A delivery follows each change that fits.</p>
            )}
            <ul className="panel">
              {items.map((delivery) => (
                <li key={delivery.id} className="card">
                  <div className="row">
                    <Badge look={delivery.success ? 'ok' : 'danger'}>{delivery.statusCode ?? 'no answer'}</Badge>
                    <span>
                      {delivery.eventAction} of <code>{delivery.eventTable}</code>
                    </span>
                    <span className="muted" title={moment(delivery.deliveredAt)}>
                      {ago(delivery.deliveredAt)}, {duration(delivery.durationMs)}, attempt {delivery.attempt}
                    </span>
                    <span className="grow" />
                    <Button
                      look="small"
                      aria-expanded={shown === delivery.id}
                      onClick={() => setShown(shown === delivery.id ? null : delivery.id)}
                    >
                      Details
                    </Button>
                    <Button look="small" icon="refresh" busy={replay.busy} onClick={() => replay.run(delivery)}>
                      Replay
                    </Button>
                  </div>
                  {delivery.error && <p className="code-del">{delivery.error}</p>}
                  {shown === delivery.id && (
                    <>
                      <Snippet label="Request" text={delivery.requestBody ?? ''} wrap />
                      <Snippet label="Answer" text={delivery.responseBody ?? ''} wrap />
                    </>
                  )}
                </li>
              ))}
            </ul>
            <Pager page={page} pages={totalPages} note={`${totalItems} attempts`} onPage={setPage} />
          </>
        )}
      </Loaded>
    </Dialog>
  )
}
