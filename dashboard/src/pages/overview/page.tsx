import { changed, useAction, useApi } from '../../api/hooks.ts'
import { fullName, schemaChanged, type Table, useSchema } from '../../api/schema.ts'
import { sql } from '../../api/sql.ts'
import { Link, type Search, useGo } from '../../app/navigate.tsx'
import { Chart } from '../../parts/chart/chart.tsx'
import { confirm } from '../../parts/dialog.tsx'
import { ago, bytes, count, duration, visible } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Page } from '../../parts/page.tsx'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, ErrorLine, Snippets } from '../../parts/ui.tsx'
import { Advice } from './advice.tsx'
import { type Gauges, useFigures } from './figures.ts'

type Status = { warnings?: string[]; verified_backup_at?: string | null }
type Stats = { version: string; uptime_seconds: number; db_pool_max: number }

export default function OverviewPage() {
  const { figures, gauges, error } = useFigures()
  const { schema } = useSchema()
  const stats = useApi<Stats>('/api/admin/stats', {}, { every: 10_000 })
  const { data: status } = useApi<Status>('/api/admin/status', {}, { every: 15_000 })
  const last = figures.at(-1)
  const times = figures.map(({ time }) => time)
  const isEmpty = schema?.tables.size === 0
  return (
    <Page
      title="Overview"
      note={stats.data && `Version ${stats.data.version}, running for ${duration(stats.data.uptime_seconds * 1000)}`}
      actions={
        <>
          <Link to="/tables" search={{ new: '1' }} className="button">
            <Icon name="plus" /> New table
          </Link>
          <Link to="/sql" className="button">
            <Icon name="sql" /> SQL
          </Link>
        </>
      }
    >
      {isEmpty && <FirstSteps />}
      <ErrorLine error={error} />
      <dl className="stats">
        <Stat title="Requests" value={last ? last.perSecond.toFixed(1) : '–'} unit="per second" />
        <Stat title="Errors" value={last ? last.errors.toFixed(1) : '–'} unit="5xx per second" />
        <Stat title="Half answered in" value={last?.p50 == null ? '–' : duration(last.p50)} unit="p50" />
        <Stat title="95 % answered in" value={last?.p95 == null ? '–' : duration(last.p95)} unit="p95" />
        {gauges && <GaugeStats gauges={gauges} most={stats.data?.db_pool_max} />}
        {status?.verified_backup_at !== undefined && (
          <Stat
            title="Backup verified"
            value={status.verified_backup_at ? ago(status.verified_backup_at) : 'never'}
            unit="by restoring it"
          />
        )}
      </dl>
      <div className="columns">
        <section className="card">
          <h2>Requests per second</h2>
          <Chart
            label="Requests and errors per second"
            kind="line"
            height={200}
            times={times}
            series={[
              { name: 'requests', values: figures.map(({ perSecond }) => round(perSecond)) },
              { name: 'errors', values: figures.map(({ errors }) => round(errors)), colour: 'var(--danger)' },
            ]}
          />
        </section>
        <section className="card">
          <h2>Time to answer</h2>
          <Chart
            label="Milliseconds to answer, p50 and p95"
            kind="line"
            height={200}
            times={times}
            unit={(value) => `${value} ms`}
            series={[
              { name: 'p50', values: figures.map(({ p50 }) => round(p50)) },
              { name: 'p95', values: figures.map(({ p95 }) => round(p95)), colour: 'var(--warn)' },
            ]}
          />
        </section>
      </div>
      <Warnings />
      <Advice />
      {schema && !isEmpty && (
        <section className="card">
          <h2>Tables</h2>
          <ul className="row">
            {[...schema.tables.keys()].slice(0, 40).map((name) => (
              <li key={name}>
                <Link to={`/tables/${encodeURIComponent(name)}`} className="button small">
                  <Icon name="table" size={14} /> <span className="isolate">{visible(name)}</span>
                </Link>
              </li>
            ))}
          </ul>
        </section>
      )}
    </Page>
  )
}

const round = (value: number | null): number | null => (value === null ? null : Math.round(value * 100) / 100)

const Stat = ({ title, value, unit }: { title: string; value: string; unit: string }) => (
  <div className="stat">
    <dt>{title}</dt>
    <dd>
      {value} <small>{unit}</small>
    </dd>
  </div>
)

const GaugeStats = ({ gauges, most }: { gauges: Gauges; most: number | undefined }) => (
  <>
    <Stat title="Connections" value={count(gauges.inUse)} unit={`in use${most ? ` of ${most}` : ''}`} />
    <Stat title="Change log" value={gauges.lag.toFixed(1)} unit="s behind" />
    <Stat title="Webhooks" value={count(gauges.webhooks)} unit="wait" />
    <Stat title="Jobs" value={count(gauges.jobs)} unit="queued" />
    <Stat title="Realtime" value={count(gauges.realtime)} unit="streams" />
    <Stat title="Memory" value={bytes(gauges.memory)} unit="resident" />
  </>
)

type Remedy = { title: string; statement: string } | { title: string; to: string; search?: Search }

/** What mends a warning of the server: SQL where that is safe, else where it is decided. */
function remedyOf(warning: string, tables: Iterable<Table>): Remedy | null {
  if (warning.includes('set security_invoker = true')) {
    // By the catalogue, not by the sentence: names in it are not quoted.
    const view = [...tables].find(({ schema, name }) => warning.startsWith(`view ${schema}.${name} reads `))
    if (view) {
      const statement = `alter view ${fullName(view)} set (security_invoker = true);`
      return { title: 'Read with the rights of the caller', statement }
    }
  }
  if (/row level security|^policy /.test(warning)) return { title: 'Policies', to: '/policies' }
  const key = /\bset ([a-z_]+\.[a-z_.]+)/.exec(warning)?.[1]
  return key ? { title: 'Settings', to: '/settings', search: { find: key } } : null
}

/** Each with what to do; where that is safe, a button that shows the SQL first. */
function Warnings() {
  const { data } = useApi<Status>('/api/admin/status', {}, { every: 15_000 })
  const { schema } = useSchema()
  const go = useGo()
  const run = useAction((statement: string) => sql(statement))
  const warnings = data?.warnings ?? []
  async function mend(title: string, statement: string): Promise<void> {
    if (!(await confirm({ title, text: <pre className="wrap">{statement}</pre>, yes: 'Run it', danger: false }))) return
    await run.runAsync(statement)
    await schemaChanged()
    await changed('/api/admin/status')
    toast('Done')
  }
  return (
    <section className="card">
      <div className="card-head">
        <h2>Warnings</h2>
        {data && (warnings.length === 0 ? <Badge look="ok">none</Badge> : <Badge look="warn">{warnings.length}</Badge>)}
      </div>
      <ul className="panel">
        {warnings.map((warning) => {
          const remedy = remedyOf(warning, schema?.tables.values() ?? [])
          return (
            <li key={warning} className="note warn">
              <Icon name="warn" />
              <div className="grow">{visible(warning)}</div>
              {remedy && (
                <Button
                  look="small"
                  onClick={() =>
                    'to' in remedy ? go(remedy.to, remedy.search) : void mend(remedy.title, remedy.statement)
                  }
                >
                  {remedy.title}
                </Button>
              )}
            </li>
          )
        })}
      </ul>
    </section>
  )
}

/** For an empty database: from nothing to a row over the API. */
function FirstSteps() {
  const base = location.origin
  return (
    <section className="card">
      <h2>First steps</h2>
      <ol className="steps">
        <li>
          <div>
            <strong>Make a table.</strong> Its API, realtime and row security are there at once.{' '}
            <Link to="/tables" search={{ new: '1' }} className="button small primary">
              New table
            </Link>
          </div>
        </li>
        <li>
          <strong>Let somebody sign in.</strong>
          <Snippets
            label="Register"
            forms={[
              [
                'curl',
                `curl ${base}/api/auth/register -H 'Content-Type: application/json' \\\n  -d '{"email": "ana@example.com", "password": "long enough"}'`,
              ],
              [
                'client',
                `import { createClient } from 'savanna-client'\n\nconst svc = createClient('${base}')\nawait svc.auth.register({ email: 'ana@example.com', password: 'long enough' })`,
              ],
            ]}
          />
        </li>
        <li>
          <strong>Write and read a row.</strong>
          <Snippets
            label="Write a row"
            forms={[
              [
                'curl',
                `curl ${base}/api/collections/notes -H "Authorization: Bearer $TOKEN" \\\n  -H 'Content-Type: application/json' -d '{"title": "feed the lions"}'\ncurl ${base}/api/collections/notes -H "Authorization: Bearer $TOKEN"`,
              ],
              [
                'client',
                `const notes = svc.from('notes')\nawait notes.create({ title: 'feed the lions' })\nconst { items } = await notes.list()`,
              ],
            ]}
          />
        </li>
        <li>
          <strong>Hear of changes.</strong>
          <Snippets
            label="Hear of changes"
            forms={[
              ['client', `notes.watch({ onChange: ({ action, record }) => console.log(action, record) })`],
              ['curl', `curl -N "${base}/api/realtime?tables=notes" -H "Authorization: Bearer $TOKEN"`],
            ]}
          />
        </li>
      </ol>
    </section>
  )
}
