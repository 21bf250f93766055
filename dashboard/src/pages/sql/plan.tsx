import type { SqlResult } from '../../api/sql.ts'
import { count, duration, text } from '../../parts/format.ts'

type Node = {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Total Cost'?: number
  'Plan Rows'?: number
  'Actual Rows'?: number
  'Actual Total Time'?: number
  'Actual Loops'?: number
  Filter?: string
  'Index Cond'?: string
  'Hash Cond'?: string
  Plans?: Node[]
}

/** Of EXPLAIN (FORMAT JSON). */
export function planOf(result: SqlResult): Node | null {
  if (result.columns.length !== 1 || result.columns[0] !== 'QUERY PLAN') return null
  const [value] = result.rows[0] ?? []
  const parsed = tryParse(text(value)) as { Plan?: Node }[] | null
  return (Array.isArray(parsed) ? parsed[0]?.Plan : undefined) ?? null
}

function tryParse(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return null
  }
}

/** What the node itself takes, without those below it. */
function own(node: Node): number {
  const of = (one: Node): number =>
    one['Actual Total Time'] === undefined
      ? (one['Total Cost'] ?? 0)
      : one['Actual Total Time'] * (one['Actual Loops'] ?? 1)
  return of(node) - (node.Plans ?? []).reduce((sum, child) => sum + of(child), 0)
}

const all = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(all)]

export function Plan({ plan }: { plan: Node }) {
  const costly = all(plan).reduce((most, node) => (own(node) > own(most) ? node : most))
  return (
    <div className="plan card">
      <ul>
        <PlanNode node={plan} costly={costly} />
      </ul>
    </div>
  )
}

function PlanNode({ node, costly }: { node: Node; costly: Node }) {
  const rows = node['Actual Rows'] ?? node['Plan Rows']
  const condition = node['Index Cond'] ?? node['Hash Cond'] ?? node.Filter
  return (
    <li>
      <div className={node === costly ? 'plan-node costly' : 'plan-node'}>
        <strong>{node['Node Type']}</strong> {node['Relation Name'] && <code>{node['Relation Name']}</code>}{' '}
        {node['Index Name'] && <span className="muted">by {node['Index Name']}</span>}
        <div className="muted">
          cost {count(Math.round(node['Total Cost'] ?? 0))}
          {rows !== undefined && `, ${count(Math.round(rows))} rows`}
          {node['Actual Total Time'] !== undefined && `, ${duration(node['Actual Total Time'])}`}
          {node === costly && ' · the costly part'}
        </div>
        {condition && <code>{condition}</code>}
      </div>
      {node.Plans && (
        <ul>
          {node.Plans.map((child, index) => (
            <PlanNode key={index} node={child} costly={costly} />
          ))}
        </ul>
      )}
    </li>
  )
}
