import { reasonOf, unavailable } from '../../../core/errors.ts'
import { getOrCreate } from '../../../core/get-or-create.ts'
import { SYSTEM } from '../../../core/identity.ts'
import type { Observe } from '../../../core/observe.ts'
import type { Db } from '../../../db/db.ts'
import { Loop } from '../../../db/loop.ts'
import type { ChannelMember, Relay, Relayable } from './relay.ts'
import {
  addMembers,
  beat,
  changeStates,
  countPresent,
  listMembers,
  lockChannels,
  type MemberRow,
  removeMembers,
  removeNodes,
} from './sql.ts'

/** One connection in one channel. `state`: JSON text. */
export type Place = { readonly channel: string; readonly ref: string; readonly from: string | null; state: string }

export type PresenceDiff = Extract<Relayable, { type: 'presence' }>

/** Who was there when a place was taken, this one included. */
export type Present = { members: ChannelMember[]; count: number }

type Entered = { resolve: (present: Present) => void; reject: (error: unknown) => void }
type Step = { kind: 'join' | 'state' | 'leave'; place: Place; entered?: Entered }

type Deps = {
  db: Db
  relay: Relay
  observe: Observe
  /** All places of this process. */
  places: () => Place[]
  /** Called after the commit, in order; `joining` are told by their reply. */
  onDiff: (diff: PresenceDiff, joining: ReadonlySet<string>) => void
}

const BEAT_MS = 1_000
const GAP_MS = 5
const MAX_BATCH = 1_000

const memberOf = ({ ref, user_id: from, state }: MemberRow): ChannelMember => ({
  from,
  state: JSON.parse(state) as unknown,
  ref,
})
const rowsIn = (text: string | null | undefined): MemberRow[] => JSON.parse(text ?? '[]') as MemberRow[]

/**
 * Who is where, in a table that all processes share. What changes is told to the others in the transaction that changes
 * it, so that who reads the list and then listens misses nothing.
 */
export class Presence {
  readonly #deps: Deps
  readonly #others = new Set<string>()
  #steps: Step[] = []
  #dead: string[] = []
  #writing: Loop | undefined
  #beating: Loop | undefined

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Whether there are other processes that may have members. */
  get areOthers(): boolean {
    return this.#others.size > 0
  }

  async start(): Promise<void> {
    const { observe, relay } = this.#deps
    const onFailure = (error: unknown): void =>
      observe({ message: 'channels: presence not written', attrs: { error: reasonOf(error) } })
    this.#writing ??= new Loop({
      step: () => this.#write(),
      everyMs: Number.POSITIVE_INFINITY,
      gapMs: () => GAP_MS,
      onFailure,
    })
    await this.#beat()
    relay.publish({ type: 'hello' })
    this.#beating = new Loop({ step: () => this.#beat(), everyMs: BEAT_MS, firstMs: BEAT_MS, onFailure })
  }

  /** Another process was heard. */
  met(node: string): void {
    this.#others.add(node)
  }

  enter(place: Place): Promise<Present> {
    return new Promise((resolve, reject) => this.#add({ kind: 'join', place, entered: { resolve, reject } }))
  }

  change(place: Place): void {
    this.#add({ kind: 'state', place })
  }

  leave(place: Place): void {
    this.#add({ kind: 'leave', place })
  }

  /** A place that others gave up, though it is taken. */
  again(place: Place): void {
    this.#add({ kind: 'join', place })
  }

  async countOf(channel: string): Promise<number> {
    const counts = JSON.parse((await this.#deps.db.fly(SYSTEM, countPresent([channel]))) ?? '{}')
    return Number(new Map(Object.entries(counts as object)).get(channel) ?? 0)
  }

  async stop(): Promise<void> {
    await this.#beating?.stop()
    await this.#writing?.stop()
    if (!this.#writing) return
    const { db, relay } = this.#deps
    // Should it fail, the others find out by themselves.
    await db
      .tx(SYSTEM, async (tx) => {
        const gone = rowsIn(await tx.fly(removeNodes([relay.node], true)))
        const channels = [...new Set(gone.map(({ channel }) => channel))]
        const counts = JSON.parse((await tx.fly(countPresent(channels))) ?? '{}') as Record<string, number>
        const diffs = diffsOf({ left: gone, joined: [], changed: [] }, counts)
        if (diffs.length > 0) await tx.fly(relay.tell(diffs))
      })
      .catch(() => undefined)
  }

  #add(step: Step): void {
    this.#steps.push(step)
    this.#writing?.poke()
  }

  async #beat(): Promise<undefined> {
    const { db, relay, places } = this.#deps
    const text = await db.fly(SYSTEM, beat(relay.node))
    const { isNew, others, dead } = JSON.parse(text ?? '{}') as { isNew: boolean; others: string[]; dead: string[] }
    this.#others.clear()
    for (const other of others) this.#others.add(other)
    if (isNew) for (const place of places()) this.again(place)
    if (dead.length === 0) return
    this.#dead = dead
    this.#writing?.poke()
  }

  /** What waits, in one transaction. A failure fails those who wait to enter; the others are tried again. */
  async #write(): Promise<undefined | number> {
    const steps = this.#steps.splice(0, MAX_BATCH)
    const dead = this.#dead
    this.#dead = []
    if (steps.length === 0 && dead.length === 0) return undefined
    const last = new Map(steps.map((step) => [`${step.place.ref} ${step.place.channel}`, step]))
    const entering = new Set(steps.flatMap((step) => (step.kind === 'join' ? [step.place] : [])))
    const of = (kind: Step['kind']): Place[] =>
      [...last.values()].flatMap(({ kind: is, place }) =>
        // A state that was set while its place was taken is that of the place.
        (is === 'state' && entering.has(place) ? 'join' : is) === kind ? [place] : [],
      )
    try {
      const { diffs, listed, counts } = await this.#store(of('join'), of('state'), of('leave'), dead)
      for (const { entered, place } of steps) {
        const members = listed.filter(({ channel }) => channel === place.channel).map(memberOf)
        entered?.resolve({ members, count: new Map(Object.entries(counts)).get(place.channel) ?? members.length })
      }
      const joining = new Set(of('join').map(({ channel, ref }) => `${ref} ${channel}`))
      for (const diff of diffs) this.#deps.onDiff(diff, joining)
    } catch (error) {
      this.#dead = dead
      // Of each place the last step is enough.
      this.#steps.unshift(...[...last.values()].filter(({ entered }) => !entered))
      for (const { entered } of steps) entered?.reject(unavailable('presence is not available', 1))
      throw error
    }
    return this.#steps.length > 0 ? 0 : undefined
  }

  #store(joining: Place[], changing: Place[], leaving: Place[], dead: readonly string[]) {
    const { db, relay } = this.#deps
    const channels = [...new Set([...joining, ...changing, ...leaving].map(({ channel }) => channel))]
    const joined = [...new Set(joining.map(({ channel }) => channel))]
    return db.tx(SYSTEM, async (tx) => {
      const answers = await tx.fly([
        lockChannels(joined),
        removeMembers(
          leaving.map(({ channel }) => channel),
          leaving.map(({ ref }) => ref),
        ),
        removeNodes(dead),
        addMembers(
          relay.node,
          joining.map(({ from, ...place }) => ({ ...place, user_id: from })),
        ),
        changeStates(changing),
        listMembers(joined),
      ])
      const [, left, gone, added, changed, listed] = answers.map((text, i) => (i === 0 ? [] : rowsIn(text)))
      const rows = { left: [...(left ?? []), ...(gone ?? [])], joined: added ?? [], changed: changed ?? [] }
      const touched = [...new Set([...channels, ...rows.left.map(({ channel }) => channel)])]
      const counts = JSON.parse((await tx.fly(countPresent(touched))) ?? '{}') as Record<string, number>
      const diffs = diffsOf(rows, counts)
      if (diffs.length > 0) await tx.fly(relay.tell(diffs))
      return { diffs, listed: listed ?? [], counts }
    })
  }
}

type DiffRows = { readonly joined: MemberRow[]; readonly left: MemberRow[]; readonly changed: MemberRow[] }

/** One for each channel. Of members that are not listed, the number alone. */
function diffsOf(rows: DiffRows, counts: Readonly<Record<string, number>>): PresenceDiff[] {
  const numbers = new Map(Object.entries(counts))
  const diffs = new Map<string, PresenceDiff>()
  for (const kind of ['joined', 'left', 'changed'] as const) {
    for (const row of rows[kind]) {
      const { channel } = row
      const diff = getOrCreate(diffs, channel, () => ({
        ...({ type: 'presence', channel, joined: [], left: [], changed: [] } as const),
        count: numbers.get(channel) ?? 0,
      })) as PresenceDiff
      if (row.is_listed) diff[kind].push(memberOf(row))
    }
  }
  return [...diffs.values()]
}
