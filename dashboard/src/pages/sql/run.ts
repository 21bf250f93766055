import { dataCore, send } from '../../api/client.ts'
import type { SqlResult } from '../../api/sql.ts'
import { viewAs } from '../../api/view-as.ts'

export type Mode = { readOnly: boolean; dryRun: boolean }
export type Changed = { table: string; action: string; key: unknown; other?: boolean }
/** A saved query that ran: with the lesser role of both. */
export type RanSaved = { name: string; author: string; runner: string; role: string }
export type Outcome = {
  results: SqlResult[]
  changes?: Changed[] | undefined
  saved?: RanSaved | undefined
  tookMs: number
}

type Answer = { results?: SqlResult[]; saved?: RanSaved } & Partial<SqlResult> & {
    dry_run?: { status: number; answer: { results?: SqlResult[] } & Partial<SqlResult>; changes: Changed[] }
  }

const resultsOf = (answer: Answer): SqlResult[] => answer.results ?? (answer.columns ? [answer as SqlResult] : [])

/** The caller that the page views as, for `as` of admin SQL. */
export function asViewed(): object {
  const as = viewAs.get()
  return as ? { as: as.who, ...(as.write && { write: true }) } : {}
}

/** Runs all statements, with the result of each; as the impersonated caller while the page views as one. */
export async function runSql(
  query: { query: string } | { saved: string },
  mode: Mode,
  signal: AbortSignal,
): Promise<Outcome> {
  const began = performance.now()
  const answer = await send<Answer>(
    'POST',
    '/api/admin/sql',
    {
      body: {
        ...query,
        all: true,
        ...(mode.readOnly && { read_only: true }),
        ...(mode.dryRun && { dry_run: true }),
        ...asViewed(),
      },
    },
    { signal, timeout: 60_000 },
    dataCore,
  )
  const tookMs = performance.now() - began
  const { dry_run: tried } = answer
  return tried
    ? { results: resultsOf(tried.answer ?? {}), changes: tried.changes, tookMs }
    : { results: resultsOf(answer), saved: answer.saved, tookMs }
}
