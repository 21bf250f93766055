import { AppError } from '../../../core/errors.ts'
import { type DatabaseRole, type DatabaseSession, type Identity, SYSTEM } from '../../../core/identity.ts'
import { inParallel } from '../../../core/limits.ts'
import type { Change } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import { policyRule } from '../../../db/schema/policy-rule.ts'
import type { Schema, Table } from '../../../db/schema/snapshot.ts'
import { keyFor } from '../../../db/schema/viewer.ts'
import type { Sql } from '../../../db/sql.ts'
import {
  become,
  type Images,
  imagesOf,
  matchesOf,
  NO_ROWS,
  type Numbered,
  type PolicyState,
  planOnce,
  type Rows,
  type Survey,
  surveyTables,
  UNSEEN,
  visibilityOf,
  withoutColumns,
} from './sql.ts'

/** Which image of a change holds: that of the new row, that of the old row. */
export type Sides = { readonly now: boolean; readonly old: boolean }
export const BOTH: Sides = { now: true, old: true }
export const NEITHER: Sides = { now: false, old: false }

/** Changes of one table, with row security as it is now. */
export type TableBatch = {
  /** Told of an image that is no row of the table. */
  readonly unreadable: (change: Change, error: unknown) => void
  readonly schema: Schema
  readonly table: Table
  readonly items: readonly Numbered[]
  readonly rls: boolean
  readonly policies: Record<string, PolicyState[]>
  /** Columns that the policies read: an image without one of them cannot be asked. */
  readonly asked: readonly string[]
}

export type Viewing = {
  readonly key: string
  readonly who: Identity
  readonly session: DatabaseSession
  readonly tables: TableBatch[]
}
export type Visible = Map<number, Sides> | AppError
/** Numbers of changes whose rows an identity did not find, though it may see their images. */
type Unseen = { readonly batch: TableBatch; readonly numbers: readonly number[]; readonly seen: Map<number, Sides> }

/** Identities judged in one flight. */
const PER_FLIGHT = 40
const PARALLEL_FLIGHTS = 2
const CHECK_TIMEOUT_MS = 5_000
const OPTIONS = { kind: 'slow', plain: true, timeoutMs: CHECK_TIMEOUT_MS } as const
const FILTER_OPTIONS = { kind: 'slow', plain: true, timeoutMs: 1_000 } as const

export async function survey(db: Db, tables: readonly Table[]): Promise<Survey> {
  if (tables.length === 0) return {}
  const text = await db.fly(SYSTEM, surveyTables(tables.map((table) => table.oid)))
  return JSON.parse(text ?? '{}') as Survey
}

/**
 * What each identity may see of the changes: one query per identity and table for the whole batch, many identities in
 * one flight. An identity whose policies raise gets the error; the others get their answer.
 */
export async function visibleTo(db: Db, viewings: readonly Viewing[]): Promise<Map<string, Visible>> {
  const images = new Map<TableBatch, Images>()
  for (const batch of new Set(viewings.flatMap((viewing) => viewing.tables)))
    images.set(batch, await imagesFor(db, batch))

  const questions = new Map<string, Sql>()
  const ask = (batch: TableBatch, role: DatabaseRole): Sql => {
    const key = `${batch.table.oid} ${role}`
    const mayReadKey = keyFor(batch.table, role).length > 0
    const policies = policyRule(batch.policies[role] ?? [])
    const question =
      questions.get(key) ?? visibilityOf(batch.table, policies, images.get(batch) ?? NO_IMAGES, mayReadKey)
    questions.set(key, question)
    return question
  }

  const visible = new Map<string, Visible>()
  const unseen: Unseen[] = []
  const judge = async (group: readonly Viewing[]): Promise<void> => {
    const [first] = group
    if (!first) return
    const statements: [Sql, ...Sql[]] = [planOnce]
    for (const { session, tables } of group) {
      statements.push(become(session), ...tables.map((batch) => ask(batch, session.role)))
    }
    try {
      const texts = await db.fly(first.who, statements, OPTIONS)
      let at = 1
      for (const { key, tables } of group) {
        at++
        const seen = new Map<number, Sides>()
        for (const batch of tables) {
          const numbers = readSides(texts[at++] ?? '', images.get(batch) ?? NO_IMAGES, seen)
          if (numbers.length > 0) unseen.push({ batch, numbers, seen })
        }
        visible.set(key, seen)
      }
    } catch (error) {
      if (!(error instanceof AppError) || isTransient(error)) throw error
      if (group.length === 1) {
        visible.set(first.key, error)
        return
      }
      const half = Math.ceil(group.length / 2)
      await judge(group.slice(0, half))
      await judge(group.slice(half))
    }
  }
  await inParallel(flightsOf(viewings), PARALLEL_FLIGHTS, judge)
  await lookForUnseen(db, unseen)
  return visible
}

/** Of rows that have gone since the images were read, the image decides, as if they had been gone then. */
async function lookForUnseen(db: Db, unseen: readonly Unseen[]): Promise<void> {
  for (const batch of new Set(unseen.map((each) => each.batch))) {
    const ofBatch = unseen.filter((each) => each.batch === batch)
    const numbers = new Set(ofBatch.flatMap((each) => each.numbers))
    const items = batch.items.filter(({ n }) => numbers.has(n))
    const gone = new Set((await readImages(db, batch, items)).gone.numbers)
    for (const { seen, numbers } of ofBatch) {
      for (const n of numbers) if (gone.has(n)) seen.set(n, { ...(seen.get(n) ?? NEITHER), now: true })
    }
  }
}

/** Which changes a filter matches, on either side, and what asking cost the database. */
export async function matchesFor(
  db: Db,
  who: Identity,
  batch: TableBatch,
  filter: Sql,
): Promise<{ matches: Map<number, Sides>; ms: number }> {
  const images = await imagesFor(db, batch)
  const matches = new Map<number, Sides>()
  const text = (await db.fly(who, matchesOf(batch.table, filter, images), FILTER_OPTIONS)) ?? ''
  readSides(text, images, matches)
  return { matches, ms: Number(text.split('|').at(-1)) || 0 }
}

export type Records = { readonly full: ReadonlyMap<number, string>; readonly key: ReadonlyMap<number, string> }

/** The JSON of the changes' records, and of their keys, without the hidden columns. */
export async function recordsWithout(
  db: Db,
  table: Table,
  items: readonly Numbered[],
  hidden: readonly string[],
): Promise<Records> {
  const text = (await db.fly(SYSTEM, withoutColumns(table, items, hidden))) ?? '[]'
  const found = JSON.parse(text) as [number, string | null, string][]
  return {
    full: new Map(found.flatMap(([n, record]) => (record === null ? [] : [[n, record] as const]))),
    key: new Map(found.map(([n, , key]) => [n, key])),
  }
}

/** The database went away, or is out of connections: nothing is known about the question. All else would fail again. */
export const isTransient = (error: unknown): boolean => error instanceof AppError && error.kind === 'unavailable'

const NO_IMAGES: Images = { live: NO_ROWS, partial: NO_ROWS, gone: NO_ROWS, old: NO_ROWS }

/** The server's own role on the search path of requests: keys may be of an extension's type. */
const SERVER: Identity = { kind: 'admin', tokenId: '', expiresAt: 0 }

const known = new WeakMap<TableBatch, Promise<Images>>()
function imagesFor(db: Db, batch: TableBatch): Promise<Images> {
  const asked = known.get(batch) ?? readImages(db, batch, batch.items)
  known.set(batch, asked)
  asked.catch(() => known.delete(batch))
  return asked
}

/** A record that is no row of its table, as a function's result may be, is seen by nobody; the others are not lost for it. */
async function readImages(db: Db, batch: TableBatch, items: readonly Numbered[]): Promise<Images> {
  try {
    const text = await db.fly(SERVER, imagesOf(batch, batch.asked, items), OPTIONS)
    return JSON.parse(text ?? '{}') as Images
  } catch (error) {
    if (!(error instanceof AppError) || isTransient(error)) throw error
    const [first] = items
    if (first && items.length === 1) batch.unreadable(first.change, error)
    if (items.length <= 1) return NO_IMAGES
    const half = Math.ceil(items.length / 2)
    const [a, b] = [await readImages(db, batch, items.slice(0, half)), await readImages(db, batch, items.slice(half))]
    return {
      live: both(a.live, b.live),
      partial: both(a.partial, b.partial),
      gone: both(a.gone, b.gone),
      old: both(a.old, b.old),
    }
  }
}

/** Array literals end with a brace each, so they are joined inside. */
function both(a: Rows, b: Rows): Rows {
  if (a.numbers.length === 0) return b
  if (b.numbers.length === 0) return a
  return { numbers: [...a.numbers, ...b.numbers], array: `${a.array.slice(0, -1)},${b.array.slice(1)}` }
}

/** `{t,f}|…` for live, partial, gone and old, as visibilityOf answers. Answers the numbers of what was not found. */
function readSides(text: string, { live, partial, gone, old }: Images, into: Map<number, Sides>): number[] {
  const unseen: number[] = []
  const lists = text.split('|')
  for (const [i, rows] of [live, partial, gone, old].entries()) {
    const list = lists[i] ?? ''
    for (const [k, n] of rows.numbers.entries()) {
      // Each verdict is one letter after a brace or a comma.
      const verdict = list[2 * k + 1]
      if (verdict === UNSEEN) unseen.push(n)
      if (verdict !== 't') continue
      const side = into.get(n) ?? NEITHER
      into.set(n, rows === old ? { ...side, old: true } : { ...side, now: true })
    }
  }
  return unseen
}

/** One role per flight, because a flight is flown under one role. */
function flightsOf(viewings: readonly Viewing[]): Viewing[][] {
  const flights: Viewing[][] = []
  for (const role of new Set(viewings.map(({ session }) => session.role))) {
    const group = viewings.filter(({ session }) => session.role === role)
    for (let i = 0; i < group.length; i += PER_FLIGHT) flights.push(group.slice(i, i + PER_FLIGHT))
  }
  return flights
}
