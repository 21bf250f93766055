import type pg from 'pg'
import { Ident } from '../sql.ts'

/** A part of a plan that reads a whole table for few rows. */
export type WholeScan = {
  readonly schema: string
  readonly table: string
  /** As PostgreSQL prints it. */
  readonly filter: string
  readonly rows: number
}
type PlanNode = Readonly<Record<string, unknown>> & { Plans?: PlanNode[] }
export type ExplainedShape = {
  readonly cost: number
  readonly scans: readonly WholeScan[]
  /** Names of the indexes that it reads. */
  readonly indexes: readonly string[]
}

/** The plans of statements without their values, under the role that runs them. Nothing is executed. */
export class Plans {
  readonly #client: pg.Client
  readonly #version: number
  #statements = 0

  private constructor(client: pg.Client, version: number) {
    this.#client = client
    this.#version = version
  }

  static async open(client: pg.Client, schemas: readonly string[]): Promise<Plans> {
    const path = schemas.map((name) => new Ident(name).quoted).join(', ')
    await client.query(
      `select pg_catalog.set_config('search_path', $1, false), pg_catalog.set_config('statement_timeout', '5s', false)`,
      [path],
    )
    const { rows } = await client.query<{ v: string }>(`select pg_catalog.current_setting('server_version_num') as v`)
    return new Plans(client, Number(rows[0]?.v ?? 0))
  }

  /** Undefined for a statement that cannot be planned any more. */
  async explain(text: string, role: string): Promise<ExplainedShape | undefined> {
    const client = this.#client
    await client.query('begin read only')
    try {
      if (role === 'svc_anon' || role === 'svc_authenticated') await client.query(`set local role ${role}`)
      const plan = this.#version >= 160_000 ? await this.#generic(text) : await this.#prepared(text)
      return plan && { cost: Number(plan['Total Cost'] ?? 0), scans: scansIn(plan), indexes: indexesIn(plan) }
    } catch {
      return undefined
    } finally {
      await client.query('rollback')
    }
  }

  async #generic(text: string): Promise<PlanNode | undefined> {
    return planOf(await this.#client.query(`explain (generic_plan, verbose, format json) ${text}`))
  }

  /** Before PostgreSQL 16: by a prepared statement, with any values. */
  async #prepared(text: string): Promise<PlanNode | undefined> {
    const name = `svc_shape_${++this.#statements}`
    const count = Math.max(0, ...[...text.matchAll(/\$(\d+)/g)].map(([, n]) => Number(n)))
    await this.#client.query('set local plan_cache_mode = force_generic_plan')
    await this.#client.query(`prepare ${name} as ${text}`)
    const values = count === 0 ? '' : `(${Array.from({ length: count }, () => 'null').join(', ')})`
    const plan = planOf(await this.#client.query(`explain (verbose, format json) execute ${name}${values}`))
    await this.#client.query(`deallocate ${name}`)
    return plan
  }
}

function planOf({ rows }: pg.QueryResult): PlanNode | undefined {
  const value: unknown = Object.values((rows[0] ?? {}) as object)[0]
  const parsed = typeof value === 'string' ? (JSON.parse(value) as unknown) : value
  return (parsed as { Plan?: PlanNode }[] | undefined)?.[0]?.Plan
}

const indexesIn = (node: PlanNode): string[] => [
  ...(typeof node['Index Name'] === 'string' ? [node['Index Name']] : []),
  ...(node.Plans ?? []).flatMap(indexesIn),
]

function scansIn(node: PlanNode): WholeScan[] {
  const below = (node.Plans ?? []).flatMap(scansIn)
  if (node['Node Type'] !== 'Seq Scan' || typeof node['Filter'] !== 'string') return below
  const scan = {
    schema: String(node['Schema']),
    table: String(node['Relation Name']),
    filter: node['Filter'],
    rows: Number(node['Plan Rows'] ?? 0),
  }
  return [scan, ...below]
}

/** Columns that a filter compares with a value: equal ones first, then at most one that is a range. */
export function comparedColumns(filter: string): string[] {
  const plain = filter.replaceAll('svc_t.', '')
  const column = '\\(*"?([A-Za-z_][\\w$]*)"?\\)*(?:::[\\w ]+)?'
  const value =
    "(?:\\$\\d+|\\(*\\$\\d+\\)*::|ANY|'|\\(InitPlan|\\(NULLIF|NULLIF|svc\\.|\\(svc|-?\\d|[a-z_]+\\.[a-z_]+\\b)"
  const found = (operator: string): string[] =>
    [...plain.matchAll(new RegExp(`${column} ${operator} \\(*${value}`, 'g'))].map(([, name = '']) => name)
  const equal = found('=')
  const range = found('(?:<|>|<=|>=)').filter((name) => !equal.includes(name))
  return [...new Set([...equal, ...range.slice(0, 1)])]
}
