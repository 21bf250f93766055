import { lazy, Suspense } from 'react'
import type { ChartProps } from './plot.tsx'

const Plot = lazy(() => import('./plot.tsx'))

/** A chart, with its figures as a table for those who do not see it. */
export function Chart(props: ChartProps) {
  const points = props.times?.length ?? props.names?.length ?? 0
  return (
    <figure className="chart" aria-label={props.label}>
      {points === 0 ? (
        <p className="muted" style={{ height: props.height }}>
          No figures yet.
        </p>
      ) : (
        <Suspense fallback={<div style={{ height: props.height }} />}>
          <Plot {...props} />
        </Suspense>
      )}
      <details>
        <summary className="muted">Figures</summary>
        <div className="table-wrap">
          <table className="table">
            <thead>
              <tr>
                <th>{props.times ? 'Time' : 'Name'}</th>
                {props.series.map(({ name }) => (
                  <th key={name} className="num">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {Array.from({ length: Math.min(points, 100) }, (_, offset) => points - 1 - offset).map((at) => (
                <tr key={at}>
                  <td>
                    {props.times ? new Date((props.times[at] ?? 0) * 1000).toLocaleString('en-GB') : props.names?.[at]}
                  </td>
                  {props.series.map(({ name, values }) => (
                    <td key={name} className="num">
                      {values[at] ?? '–'}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  )
}
