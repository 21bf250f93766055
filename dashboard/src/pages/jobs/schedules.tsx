import { useMemo, useState } from 'react'
import { post, put, remove, sentence } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { confirm, FormDialog } from '../../parts/dialog.tsx'
import { ago, moment } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { MenuButton } from '../../parts/menu.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Empty, Loaded } from '../../parts/ui.tsx'
import { nextTimes } from './cron.ts'
import { parsed } from './payload.ts'

type Schedule = {
  id: string
  name: string
  jobType: string
  cronExpr: string
  timezone: string
  payload: unknown
  enabled: boolean
  nextRunAt: string | null
}

export function Schedules() {
  const schedules = useApi<{ items: Schedule[] }>('/api/admin/schedules')
  const [edited, setEdited] = useState<Schedule | null>(null)
  const changes = ['/api/admin/schedules', '/api/admin/jobs']
  const act = useAction(({ id, what }: { id: string; what: string }) => post(`/api/admin/schedules/${id}/${what}`), {
    changes,
    done: (_, { what }) => (what === 'run' ? 'Queued' : 'Done'),
  })
  const drop = useAction((id: string) => remove(`/api/admin/schedules/${id}`), {
    changes,
    done: 'The schedule is gone',
  })
  return (
    <>
      <Loaded of={schedules}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="There is no schedule yet" icon="clock">
              <p>A schedule queues a job again and again, at times that you give as cron does.</p>
            </Empty>
          ) : (
            <List
              label="Schedules"
              items={items}
              keyOf={({ id }) => id}
              cells={[
                ['Name', ({ name }) => <strong>{name}</strong>],
                ['Job', ({ jobType }) => <code>{jobType}</code>],
                ['When', ({ cronExpr, timezone }) => [<code key="e">{cronExpr}</code>, ` ${timezone}`]],
                ['Next five', (schedule) => <NextFive schedule={schedule} />],
                ['State', ({ enabled }) => <Badge look={enabled ? 'ok' : ''}>{enabled ? 'on' : 'off'}</Badge>],
                [
                  '',
                  (schedule) => (
                    <MenuButton
                      label={`More of ${schedule.name}`}
                      look="quiet small"
                      icon="more"
                      items={[
                        { label: 'Run now', icon: 'play', run: () => act.run({ id: schedule.id, what: 'run' }) },
                        { label: 'Edit', icon: 'edit', run: () => setEdited(schedule) },
                        {
                          label: schedule.enabled ? 'Switch off' : 'Switch on',
                          icon: 'bolt',
                          run: () => act.run({ id: schedule.id, what: schedule.enabled ? 'disable' : 'enable' }),
                        },
                        '-',
                        {
                          label: 'Delete',
                          icon: 'trash',
                          danger: true,
                          run: async () => {
                            if (await confirm({ title: `Delete ${schedule.name}?`, yes: 'Delete' }))
                              drop.run(schedule.id)
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
      {edited && <ScheduleForm schedule={edited} onClose={() => setEdited(null)} />}
    </>
  )
}

function NextFive({ schedule }: { schedule: Schedule }) {
  const [isOpen, setOpen] = useState(false)
  if (!schedule.enabled) return <span className="muted">–</span>
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{ago(schedule.nextRunAt)}</summary>
      {isOpen && <NextTimes expression={schedule.cronExpr} zone={schedule.timezone} />}
    </details>
  )
}

function NextTimes({ expression, zone }: { expression: string; zone: string }) {
  const { times, error } = useNextTimes(expression, zone)
  return error ? (
    <p className="muted">{error}</p>
  ) : (
    <ul>
      {times.map((time) => (
        <li key={time}>{moment(time)}</li>
      ))}
    </ul>
  )
}

/** Of what is being typed: the next times, or why the server would refuse it. */
function Preview({ expression, zone }: { expression: string; zone: string }) {
  const { times, error } = useNextTimes(expression, zone)
  return <p className="muted">{error || `Next: ${times.map(moment).join(' · ')}`}</p>
}

function useNextTimes(expression: string, zone: string): { times: readonly string[]; error: string } {
  return useMemo(() => {
    try {
      return { times: nextTimes(expression, zone || 'UTC', 5).map((time) => time.toISOString()), error: '' }
    } catch (error) {
      return { times: [], error: sentence(error) }
    }
  }, [expression, zone])
}

export function ScheduleForm({ schedule, onClose }: { schedule: Schedule | null; onClose(): void }) {
  return (
    <FormDialog
      title={schedule ? `Schedule ${schedule.name}` : 'New schedule'}
      yes={schedule ? 'Save' : 'Create'}
      fields={[
        ...(schedule
          ? []
          : [
              { name: 'name', label: 'Name', required: true } as const,
              { name: 'jobType', label: 'Job type', required: true, placeholder: 'sql' } as const,
            ]),
        {
          name: 'cronExpr',
          label: 'When',
          value: schedule?.cronExpr ?? '30 2 * * *',
          hint: 'minute, hour, day, month, day of week',
        },
        { name: 'timezone', label: 'Time zone', value: schedule?.timezone ?? 'UTC' },
        { name: 'payload', label: 'Payload (JSON)', type: 'code', value: JSON.stringify(schedule?.payload ?? {}) },
      ]}
      onClose={onClose}
      onSubmit={async (values) => {
        const body = { ...values, payload: parsed(values['payload']) }
        await (schedule ? put(`/api/admin/schedules/${schedule.id}`, body) : post('/api/admin/schedules', body))
        await changed('/api/admin/schedules')
        toast('Saved')
      }}
    >
      {(values) => <Preview expression={String(values['cronExpr'])} zone={String(values['timezone'])} />}
    </FormDialog>
  )
}
