import { useState } from 'react'
import { post } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { useAddress } from '../../app/navigate.tsx'
import { OffsetNav } from '../../app/paged.tsx'
import { Dialog, FormDialog } from '../../parts/dialog.tsx'
import { ago, count, moment, text, visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { Page } from '../../parts/page.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Empty, Field, Loaded, Snippet, TabPanel, Tabs } from '../../parts/ui.tsx'
import { parsed } from './payload.ts'
import { ScheduleForm, Schedules } from './schedules.tsx'

type Job = {
  id: string
  type: string
  state: 'queued' | 'running' | 'completed' | 'failed' | 'canceled'
  payload: unknown
  attempts: number
  maxAttempts: number
  runAt: string
  lastRunAt?: string
  lastError: string | null
  log?: unknown
  progress?: unknown
  createdAt: string
  completedAt?: string
}

const LOOKS = { queued: '', running: 'info', completed: 'ok', failed: 'danger', canceled: 'warn' } as const
const TABS = [
  ['jobs', 'Jobs'],
  ['schedules', 'Schedules'],
] as const

export default function JobsPage() {
  const [{ tab = 'jobs' }, go] = useAddress()
  const [dialog, setDialog] = useState<'job' | 'schedule' | null>(null)
  const current = tab === 'schedules' ? 'schedules' : 'jobs'
  return (
    <Page
      title="Jobs"
      actions={
        <>
          <Button icon="plus" onClick={() => setDialog('schedule')}>
            New schedule
          </Button>
          <Button look="primary" icon="plus" onClick={() => setDialog('job')}>
            Queue a job
          </Button>
        </>
      }
    >
      <Stats />
      <Tabs
        label="Jobs"
        tabs={TABS}
        current={current}
        onChange={(name) => go({ tab: name === 'jobs' ? undefined : name })}
      />
      <TabPanel name={current}>{current === 'jobs' ? <Jobs /> : <Schedules />}</TabPanel>
      {dialog === 'job' && (
        <FormDialog
          title="Queue a job"
          yes="Queue"
          fields={[
            {
              name: 'type',
              label: 'Type',
              required: true,
              placeholder: 'change_log_trim',
              hint: 'Such as sql, http, materialized_view_refresh, storage_orphan_sweep',
            },
            { name: 'payload', label: 'Payload (JSON)', type: 'code', value: '{}' },
            { name: 'runAt', label: 'Not before', type: 'datetime-local' },
          ]}
          onClose={() => setDialog(null)}
          onSubmit={async ({ type, payload, runAt }) => {
            await post('/api/admin/jobs', {
              type,
              payload: parsed(payload),
              ...(runAt && { runAt: new Date(String(runAt)).toISOString() }),
            })
            await changed('/api/admin/jobs')
            toast('Queued')
          }}
        />
      )}
      {dialog === 'schedule' && <ScheduleForm schedule={null} onClose={() => setDialog(null)} />}
    </Page>
  )
}

function Stats() {
  const { data } = useApi<Record<string, unknown>>('/api/admin/jobs/stats', {}, { every: 3_000 })
  const figures = Object.entries(data ?? {}).filter(([, value]) => typeof value === 'number')
  return (
    <dl className="stats">
      {figures.map(([name, value]) => (
        <div key={name} className="stat">
          <dt>{name === 'oldestQueuedAgeSec' ? 'oldest queued' : name}</dt>
          <dd>
            {name === 'oldestQueuedAgeSec' ? `${Math.round(Number(value))}` : count(Number(value))}{' '}
            {name === 'oldestQueuedAgeSec' && <small>s</small>}
          </dd>
        </div>
      ))}
    </dl>
  )
}

function Jobs() {
  const [{ state = '', offset = '0', job: opened }, go] = useAddress()
  const jobs = useApi<{ items: Job[] }>(
    '/api/admin/jobs',
    { state: state || undefined, limit: 50, offset },
    { every: 3_000 },
  )
  const changes = ['/api/admin/jobs']
  const retry = useAction((id: string) => post(`/api/admin/jobs/${id}/retry`), { done: 'Queued again', changes })
  const cancel = useAction((id: string) => post(`/api/admin/jobs/${id}/cancel`), { done: 'Canceled', changes })
  return (
    <>
      <Field label="State">
        {(props) => (
          <select
            className="input"
            style={{ width: 180 }}
            {...props}
            value={state}
            onChange={(event) => go({ state: event.target.value || undefined, offset: undefined })}
          >
            <option value="">any</option>
            {Object.keys(LOOKS).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
      </Field>
      <Loaded of={jobs}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title={state ? `No job is ${state}` : 'There is no job yet'} icon="clock">
              <p>What the server does later is queued here, and what you queue by the API.</p>
            </Empty>
          ) : (
            <>
              <List
                label="Jobs"
                items={items}
                keyOf={({ id }) => id}
                cells={[
                  [
                    'Type',
                    (job) => (
                      <button type="button" className="field-value" onClick={() => go({ job: job.id })}>
                        <strong>{job.type}</strong>
                      </button>
                    ),
                  ],
                  ['State', ({ state: now }) => <Badge look={LOOKS[now]}>{now}</Badge>],
                  ['Attempts', ({ attempts, maxAttempts }) => `${attempts} of ${maxAttempts}`, 'num'],
                  ['Made', ({ createdAt }) => ago(createdAt), 'nowrap'],
                  ['Error', ({ lastError }) => <span className="code-del isolate">{visible(lastError)}</span>],
                  [
                    '',
                    (job) => (
                      <>
                        {job.state === 'failed' && (
                          <Button look="small" icon="refresh" onClick={() => retry.run(job.id)}>
                            Retry
                          </Button>
                        )}
                        {job.state === 'queued' && (
                          <Button look="small" onClick={() => cancel.run(job.id)}>
                            Cancel
                          </Button>
                        )}
                      </>
                    ),
                    'end',
                  ],
                ]}
              />
              <OffsetNav limit={50} shown={items.length} />
            </>
          )
        }
      </Loaded>
      {opened && <JobDialog id={opened} onClose={() => go({ job: undefined })} />}
    </>
  )
}

function JobDialog({ id, onClose }: { id: string; onClose(): void }) {
  const job = useApi<Job>(`/api/admin/jobs/${encodeURIComponent(id)}`, {}, { every: 2_000 })
  return (
    <Dialog title="Job" look="side-panel" onClose={onClose}>
      <Loaded of={job}>
        {(data) => (
          <>
            <dl className="facts">
              <dt>Type</dt>
              <dd>{data.type}</dd>
              <dt>State</dt>
              <dd>
                <Badge look={LOOKS[data.state]}>{data.state}</Badge>
              </dd>
              <dt>Made</dt>
              <dd>{moment(data.createdAt)}</dd>
              <dt>Last run</dt>
              <dd>{moment(data.lastRunAt)}</dd>
              <dt>Progress</dt>
              <dd>{text(data.progress) || '–'}</dd>
            </dl>
            {data.lastError && <p className="code-del">{data.lastError}</p>}
            <Snippet label="Payload" text={JSON.stringify(data.payload ?? {}, null, 2)} />
            {data.log ? (
              <Snippet
                label="Log"
                text={typeof data.log === 'string' ? data.log : JSON.stringify(data.log, null, 2)}
                wrap
              />
            ) : null}
          </>
        )}
      </Loaded>
    </Dialog>
  )
}
