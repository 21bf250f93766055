import { AppError } from '../../core/errors.ts'
import { type DatabaseRole, type DatabaseSession, type Identity, SYSTEM } from '../../core/identity.ts'
import type { Change } from '../../db/change-log.ts'
import type { Db } from '../../db/db.ts'
import type { Schema, Table } from '../../db/schema.ts'
import type { Sql } from '../../db/sql.ts'
import { keyFor } from '../../db/viewer.ts'
import {
  become,
  matchesOf,
  policyExpression,
  presentRows,
  type Survey,
  sightOf,
  surveyTables,
  withoutColumns,
} from './sql.ts'

/** A change and its number in the batch. */
export type Numbered = { readonly n: number; readonly change: Change }
/** Which image of a change holds: that of the new row, that of the old row. */
export type Sides = { readonly now: boolean; readonly old: boolean }
export const BOTH: Sides = { now: true, old: true }
export const NEITHER: Sides = { now: false, old: false }

/** Changes of one table, with row security as it is now. */
export type TableBatch = {
  readonly schema: Schema
  readonly table: Table
  readonly items: readonly Numbered[]
  readonly rls: boolean
  readonly policies: Record<string, { permissive: boolean; using: string }[]>
}

export type Viewing = {
  readonly key: string
  readonly who: Identity
  readonly session: DatabaseSession
  readonly tables: TableBatch[]
}
export type Sights = Map<number, Sides> | AppError

/** Identities judged in one flight. */
const PER_FLIGHT = 40
const PARALLEL_FLIGHTS = 2
const CHECK_TIMEOUT_MS = 5_000
const OPTIONS = { lane: 'slow', timeoutMs: CHECK_TIMEOUT_MS } as const

export async function survey(db: Db, tables: readonly Table[]): Promise<Survey> {
  if (tables.length === 0) return {}
  const text = await db.fly(SYSTEM, surveyTables(tables.map((table) => table.oid)))
  return JSON.parse(text ?? '{}') as Survey
}

/**
 * What each identity may see of the changes: one query per identity and table for the whole batch, many identities in
 * one flight. An identity whose policies raise gets the error; the others get their answer.
 */
export async function sightsOf(db: Db, viewings: readonly Viewing[]): Promise<Map<string, Sights>> {
  const tables = new Set(viewings.flatMap((viewing) => viewing.tables))
  const present = new Map<TableBatch, Set<number>>()
  for (const batch of tables) present.set(batch, await presentIn(db, batch))

  const questions = new Map<string, Sql>()
  const ask = (batch: TableBatch, role: DatabaseRole): Sql => {
    const key = `${batch.table.oid} ${role}`
    const known = questions.get(key)
    if (known) return known
    const rows = keyFor(batch.table, role).length > 0 ? (present.get(batch) ?? new Set()) : new Set<number>()
    const policies = policyExpression(batch.policies[role] ?? [])
    const made = sightOf(batch, policies, sightItems(batch.items, rows))
    questions.set(key, made)
    return made
  }

  const sights = new Map<string, Sights>()
  const judge = async (group: readonly Viewing[]): Promise<void> => {
    const [first] = group
    if (!first) return
    const statements = group.flatMap(({ session, tables: asked }) => [
      become(session),
      ...asked.map((batch) => ask(batch, session.role)),
    ])
    try {
      const texts = await db.flyAll(first.who, statements as [Sql, ...Sql[]], OPTIONS)
      let at = 0
      for (const { key, tables: asked } of group) {
        at++
        sights.set(key, new Map(asked.flatMap(() => parseSides(texts[at++] ?? ''))))
      }
    } catch (error) {
      if (isTransient(error)) throw error
      if (group.length === 1) {
        sights.set(first.key, error as AppError)
        return
      }
      const half = Math.ceil(group.length / 2)
      await judge(group.slice(0, half))
      await judge(group.slice(half))
    }
  }
  await inParallel(flightsOf(viewings), PARALLEL_FLIGHTS, judge)
  return sights
}

/** Which changes a filter matches, on either side. */
export async function matchesFor(db: Db, who: Identity, batch: TableBatch, filter: Sql): Promise<Map<number, Sides>> {
  const text = await db.fly(who, matchesOf(batch, filter, imageItems(batch.items)), OPTIONS)
  return new Map(parseSides(text ?? ''))
}

/** The JSON of the changes' records, and of their keys, without the hidden columns. */
export async function recordsWithout(
  db: Db,
  items: readonly { n: number; json: string }[],
  hidden: readonly string[],
): Promise<Map<number, string>> {
  const text = items.map(({ n, json }) => `{"n":${n},"r":${json}}`).join(',')
  return new Map(JSON.parse((await db.fly(SYSTEM, withoutColumns(`[${text}]`, hidden))) ?? '[]') as [number, string][])
}

/** The database went away, or is out of connections; nothing is known about the question. */
export const isTransient = (error: unknown): boolean => !(error instanceof AppError) || error.kind === 'unavailable'

async function presentIn(db: Db, { table, items }: TableBatch): Promise<Set<number>> {
  const asked = items.filter(({ change }) => change.action !== 'delete')
  if (asked.length === 0 || table.primaryKey.length === 0) return new Set()
  const text = asked.map(({ n, change }) => `{"n":${n},"k":${change.pk}}`).join(',')
  const found = await db.fly(SERVER, presentRows(table, `[${text}]`), OPTIONS)
  return new Set((found ?? '').split(',').filter(Boolean).map(Number))
}

/** The server's own role on the search path of requests: keys may be of an extension's type. */
const SERVER: Identity = { kind: 'admin', tokenId: '', expiresAt: 0 }

const sightItems = (items: readonly Numbered[], present: ReadonlySet<number>): string =>
  `[${items
    .map(({ n, change: { action, pk, record, oldRecord } }) => {
      const key = present.has(n) ? `,"k":${pk}` : ''
      const now = action === 'delete' ? '' : `${key},"r":${record ?? 'null'}`
      return `{"n":${n}${now},"o":${oldRecord ?? 'null'}}`
    })
    .join(',')}]`

const imageItems = (items: readonly Numbered[]): string =>
  `[${items
    .map(({ n, change: { action, record, oldRecord } }) => {
      const now = action === 'delete' ? 'null' : (record ?? 'null')
      return `{"n":${n},"r":${now},"o":${oldRecord ?? 'null'}}`
    })
    .join(',')}]`

const sides: Record<string, Sides> = {
  b: BOTH,
  n: { now: true, old: false },
  o: { now: false, old: true },
}

const parseSides = (text: string): [number, Sides][] =>
  text === '' ? [] : text.split(',').map((item) => [Number(item.slice(0, -1)), sides[item.slice(-1)] ?? NEITHER])

/** One role per flight, because a flight is flown under one role. */
function flightsOf(viewings: readonly Viewing[]): Viewing[][] {
  const flights: Viewing[][] = []
  for (const role of new Set(viewings.map(({ session }) => session.role))) {
    const group = viewings.filter(({ session }) => session.role === role)
    for (let i = 0; i < group.length; i += PER_FLIGHT) flights.push(group.slice(i, i + PER_FLIGHT))
  }
  return flights
}

async function inParallel<T>(items: readonly T[], width: number, work: (item: T) => Promise<void>): Promise<void> {
  const waiting = [...items]
  const lane = async (): Promise<void> => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane))
}
