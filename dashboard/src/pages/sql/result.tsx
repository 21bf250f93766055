import { useMemo, useState } from 'react'
import type { SqlResult } from '../../api/sql.ts'
import { Chart } from '../../parts/chart/chart.tsx'
import { Digits } from '../../parts/exact.ts'
import { duration, plural, text } from '../../parts/format.ts'
import { Grid } from '../../parts/grid/grid.tsx'
import { toTsv } from '../../parts/grid/tsv.ts'
import type { GridColumn } from '../../parts/grid/types.ts'
import { Button, copyText, Field } from '../../parts/ui.tsx'
import { Plan, planOf } from './plan.tsx'

const cellOf = (row: unknown[], { id }: GridColumn) => ({ value: row[Number(id)] })

/** One statement's result, as rows, a chart or a plan. */
export function Result({ result, index }: { result: SqlResult; index: number }) {
  const [view, setView] = useState<'rows' | 'chart'>('rows')
  const plan = useMemo(() => planOf(result), [result])
  const columns = useMemo<GridColumn[]>(
    () =>
      result.columns.map((title, at) => {
        const values = result.rows.slice(0, 50).map((row) => row[at])
        const isNumber =
          values.some((value) => value !== null) &&
          values.every((value) => value === null || typeof value === 'number' || value instanceof Digits)
        const longest = Math.max(
          title.length + 2,
          ...values.map((value) => (Array.isArray(value) ? 20 : Math.min(40, text(value).length))),
        )
        return {
          id: String(at),
          title,
          width: Math.max(80, Math.min(340, longest * 8 + 24)),
          look: isNumber ? 'num' : '',
        }
      }),
    [result],
  )
  const isRows = result.columns.length > 0
  return (
    <section
      className="grid-frame"
      aria-label={`Result ${index + 1}`}
      style={{ minHeight: isRows && !plan && view === 'rows' ? 260 : 0 }}
    >
      {plan && <Plan plan={plan} />}
      {!plan && isRows && view === 'rows' && (
        <Grid<unknown[]>
          label={`Rows of result ${index + 1}`}
          columns={columns}
          count={result.rows.length}
          total={result.rows.length}
          rowAt={(at) => result.rows[at]}
          cell={cellOf}
          resetKey={String(index)}
        />
      )}
      {!plan && isRows && view === 'chart' && <ResultChart result={result} />}
      <div className="grid-bar">
        <span>
          {result.command ? `${result.command}: ` : ''}
          {plural(result.rowCount, 'row')}, {duration(result.durationMs)}
        </span>
        {result.message && <span className="code-del">{result.message}</span>}
        <span className="grow" />
        {isRows && !plan && (
          <>
            <Button look="small" aria-pressed={view === 'rows'} onClick={() => setView('rows')}>
              Rows
            </Button>
            <Button look="small" aria-pressed={view === 'chart'} icon="chart" onClick={() => setView('chart')}>
              Chart
            </Button>
            <Button
              look="small"
              icon="copy"
              onClick={() => void copyText(toTsv([result.columns, ...result.rows]), 'Copied for a spreadsheet')}
            >
              Copy
            </Button>
          </>
        )}
      </div>
    </section>
  )
}

const asNumber = (value: unknown): number | null => {
  if (typeof value === 'boolean') return null
  if (value === null || value === undefined || value === '') return null
  const number = Number(value)
  return Number.isNaN(number) ? null : number
}

function ResultChart({ result }: { result: SqlResult }) {
  const numeric = result.columns.flatMap((name, index) =>
    result.rows.some((row) => asNumber(row[index]) !== null) ? [{ name, index }] : [],
  )
  const [x, setX] = useState(0)
  const [y, setY] = useState(() => numeric.find(({ index }) => index !== 0)?.index ?? numeric[0]?.index ?? 0)
  const [kind, setKind] = useState<'line' | 'bars'>('bars')
  if (numeric.length === 0) return <p className="table-note">A chart needs a column of numbers.</p>
  const rows = result.rows.slice(0, 2_000)
  return (
    <div className="card">
      <div className="row">
        <Field label="Along">
          {(props) => (
            <select className="input" {...props} value={x} onChange={(event) => setX(Number(event.target.value))}>
              {result.columns.map((name, index) => (
                <option key={index} value={index}>
                  {name}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Values">
          {(props) => (
            <select className="input" {...props} value={y} onChange={(event) => setY(Number(event.target.value))}>
              {numeric.map(({ name, index }) => (
                <option key={index} value={index}>
                  {name}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label="As">
          {(props) => (
            <select
              className="input"
              {...props}
              value={kind}
              onChange={(event) => setKind(event.target.value as 'line' | 'bars')}
            >
              <option value="bars">bars</option>
              <option value="line">a line</option>
            </select>
          )}
        </Field>
      </div>
      <Chart
        label={`${result.columns[y]} along ${result.columns[x]}`}
        kind={kind}
        height={260}
        names={rows.map((row) => String(row[x] ?? ''))}
        series={[{ name: result.columns[y] ?? '', values: rows.map((row) => asNumber(row[y])) }]}
      />
    </div>
  )
}
