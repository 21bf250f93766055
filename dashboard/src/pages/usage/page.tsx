import { useApi } from '../../api/hooks.ts'
import { useAddress } from '../../app/navigate.tsx'
import { Chart } from '../../parts/chart/chart.tsx'
import { bytes, count, visible } from '../../parts/format.ts'
import { List } from '../../parts/list.tsx'
import { Page } from '../../parts/page.tsx'
import { Field, Loaded } from '../../parts/ui.tsx'

type Tenant = {
  tenantId: string
  tenantName: string
  requestCount: number
  storageBytesUsed: number
  bandwidthBytes: number
  functionInvocations: number
  realtimePeakConnections: number
  jobRuns: number
}
type Trend = { items: { timestamp: string; value: number }[] }
type Breakdown = { items: { key: string; value: number }[] }

const METRICS = [
  ['api_requests', 'Requests'],
  ['bandwidth_bytes', 'Bytes sent'],
  ['function_invocations', 'Function calls'],
  ['storage_bytes', 'Bytes stored'],
] as const
const PERIODS = [
  ['day', 'a day'],
  ['week', 'a week'],
  ['month', 'a month'],
] as const

export default function UsagePage() {
  const [{ metric = 'api_requests', period = 'week' }, go] = useAddress()
  const isBytes = metric.endsWith('bytes')
  const show = (value: number): string => (isBytes ? bytes(value) : count(value))
  const granularity = period === 'day' && metric === 'api_requests' ? 'hour' : 'day'
  const trend = useApi<Trend>('/api/admin/usage/trends', { metric, granularity, period })
  const tenants = useApi<{ items: Tenant[] }>('/api/admin/usage', { period, limit: 50 })
  return (
    <Page
      title="Usage"
      actions={
        <>
          <Field label="Of">
            {(props) => (
              <select
                className="input"
                {...props}
                value={metric}
                onChange={(event) => go({ metric: event.target.value })}
              >
                {METRICS.map(([name, title]) => (
                  <option key={name} value={name}>
                    {title}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field label="For">
            {(props) => (
              <select
                className="input"
                {...props}
                value={period}
                onChange={(event) => go({ period: event.target.value })}
              >
                {PERIODS.map(([name, title]) => (
                  <option key={name} value={name}>
                    {title}
                  </option>
                ))}
              </select>
            )}
          </Field>
        </>
      }
    >
      <section className="card">
        <h2>Over time</h2>
        <Loaded of={trend}>
          {({ items }) => (
            <Chart
              label={`${metric} over time`}
              kind="bars"
              height={240}
              names={items.map(({ timestamp }) =>
                granularity === 'hour' ? timestamp.slice(11, 16) : timestamp.slice(5, 10),
              )}
              unit={show}
              series={[{ name: metric, values: items.map(({ value }) => Number(value)) }]}
            />
          )}
        </Loaded>
      </section>
      {metric === 'api_requests' && (
        <div className="columns">
          <Shares title="By route" metric={metric} groupBy="endpoint" period={period} />
          <Shares title="By status" metric={metric} groupBy="status_code" period={period} />
        </div>
      )}
      <Shares title="By tenant" metric={metric} groupBy="tenant" period={period} show={show} />
      <h2>Tenants</h2>
      <Loaded of={tenants}>
        {({ items }) => (
          <List
            label="Tenants"
            items={items}
            keyOf={({ tenantId }) => tenantId}
            cells={[
              ['Tenant', ({ tenantName }) => <strong className="isolate">{visible(tenantName)}</strong>],
              ['Requests', ({ requestCount }) => count(requestCount), 'num'],
              ['Sent', ({ bandwidthBytes }) => bytes(Number(bandwidthBytes)), 'num'],
              ['Stored', ({ storageBytesUsed }) => bytes(Number(storageBytesUsed)), 'num'],
              ['Functions', ({ functionInvocations }) => count(functionInvocations), 'num'],
              ['Streams at once', ({ realtimePeakConnections }) => count(realtimePeakConnections), 'num'],
              ['Job runs', ({ jobRuns }) => count(jobRuns), 'num'],
            ]}
          />
        )}
      </Loaded>
    </Page>
  )
}

function Shares({
  title,
  metric,
  groupBy,
  period,
  show = (value) => count(value),
}: {
  title: string
  metric: string
  groupBy: string
  period: string
  show?: (value: number) => string
}) {
  const shares = useApi<Breakdown>('/api/admin/usage/breakdown', { metric, group_by: groupBy, period, limit: 20 })
  return (
    <section className="card">
      <h2>{title}</h2>
      <Loaded of={shares}>
        {({ items }) => {
          const most = Math.max(1, ...items.map(({ value }) => Number(value)))
          return (
            <ul className="panel">
              {items.length === 0 && <li className="muted">Nothing yet.</li>}
              {items.map(({ key, value }) => (
                <li key={key} className="share">
                  <span className="isolate">{visible(key)}</span>
                  <strong>{show(Number(value))}</strong>
                  <i style={{ width: `${(Number(value) / most) * 100}%` }} />
                </li>
              ))}
            </ul>
          )
        }}
      </Loaded>
    </section>
  )
}
