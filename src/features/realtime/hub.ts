import { AppError, reasonOf } from '../../core/errors.ts'
import type { Observe } from '../../core/observe.ts'
import type { Change, ChangeLog, Follower, Position } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import type { Schema } from '../../db/schema/snapshot.ts'
import { resetFrame } from './frames.ts'
import { createRecent } from './recent.ts'
import type { Stream } from './stream.ts'
import type { Interest } from './visibility/interest.ts'
import { type Frame, judge, type Verdict } from './visibility/judge.ts'
import { isTransient } from './visibility/visible.ts'

type Deps = {
  db: Db
  log: Pick<ChangeLog, 'follow' | 'head' | 'read' | 'isKnown'>
  /** A snapshot that knows this table, if there is such a table. */
  schemaWith: (tables: readonly string[]) => Promise<Schema>
  observe: Observe
}

/** Streams that always hear the same, so that they are judged and written for once. */
type Channel = {
  readonly interest: Interest
  readonly streams: Set<Stream> /** Batches that are being checked. */
  pending: number
}
type Batch = { readonly seq: number; readonly changes: readonly Change[]; readonly channels: ReadonlySet<Channel> }

/** Changes that may wait for their checks before the reader is held up. */
const MAX_WAITING = 5_000
const IDLE_MS = 30_000
const RETRY_MS = 250
const MAX_PAUSE_MS = 150

export type Hub = {
  /** Where a new stream begins. */
  position(): Promise<Position>
  /** From `from` on, replayed first if that is in the past. Returns whether `from` is a place the log knows. */
  isKnown(position: Position): Promise<boolean>
  add(stream: Stream, from: Position): void
  remove(stream: Stream): void
  streams(): Iterable<Stream>
  /** The place up to which this stream has been told everything; undefined while that is under way. */
  settledFor(stream: Stream): Position | undefined
  size(): number
  stop(): Promise<void>
}

/** Reads the log once for all streams of this process, as long as there are any. */
export function createHub({ db, log, schemaWith, observe }: Deps): Hub {
  const channels = new Map<string, Channel>()
  const all = new Set<Stream>()
  const recent = createRecent()
  const queue: Batch[] = []
  let waiting = 0
  let checking: Promise<void> | undefined
  let follower: Promise<Follower> | undefined
  let here: Position = '0-0'
  let seq = 0
  let idleTimer: NodeJS.Timeout | undefined
  let dispatching = false
  let stopped = false

  /** Every batch is a write to each stream: the more streams, the more changes should share one. */
  const gapMs = (): number => Math.min(25, 3 + all.size / 40)

  function running(): Promise<Follower> {
    clearTimeout(idleTimer)
    follower ??= log.head().then(
      (head) => {
        here = head
        recent.restart(head)
        return log.follow({ from: head, onBatch: dispatch, onLost: lost, gapMs })
      },
      (error: unknown) => {
        follower = undefined
        throw error
      },
    )
    return follower
  }

  /** Everything up to the first wait happens at one moment, so a stream is either in this batch or after it. */
  async function dispatch(changes: readonly Change[]): Promise<void> {
    const last = changes.at(-1)
    if (!last) return
    here = last.position
    seq++
    recent.add(changes)
    const audience = [...channels.values()]
    dispatching = true
    try {
      await tellOrQueue({ seq, changes }, audience)
    } catch (error) {
      letGo(audience, error)
    } finally {
      dispatching = false
    }
    if (waiting > MAX_WAITING) await checking
  }

  async function tellOrQueue(batch: { seq: number; changes: readonly Change[] }, audience: Channel[]): Promise<void> {
    const judged = await again(async () =>
      judge({ db, observe }, await schemaWith(namesIn(batch.changes)), batch.changes),
    )
    const toCheck = new Set<Channel>()
    for (const channel of audience) {
      const { interest } = channel
      if (!judged.concerns(interest)) continue
      // Behind an unfinished check nothing may overtake.
      if (channel.pending > 0 || !judged.isFree(interest)) toCheck.add(channel)
      else tell(channel, [{ ...batch, verdict: judged.free(interest) }])
    }
    if (toCheck.size === 0) return
    for (const channel of toCheck) channel.pending++
    queue.push({ ...batch, channels: toCheck })
    waiting += batch.changes.length
    checking ??= checkAll().finally(() => {
      checking = undefined
    })
  }

  /** What arrived during one round of checks is judged together in the next: the slower the checks, the larger the rounds. */
  async function checkAll(): Promise<void> {
    while (queue.length > 0 && !stopped) {
      const round = queue.splice(0)
      const startedAt = performance.now()
      const changes = round.flatMap((batch) => batch.changes)
      waiting -= changes.length
      const asked = [...new Set(round.flatMap((batch) => [...batch.channels]))].filter(
        ({ streams }) => streams.size > 0,
      )
      try {
        const verdicts = await again(async () => {
          const judged = await judge({ db, observe }, await schemaWith(namesIn(changes)), changes)
          return judged.checked(asked.map((channel) => channel.interest))
        })
        for (const channel of asked) tell(channel, split(round, verdicts.get(channel.interest) ?? []))
      } catch (error) {
        letGo(asked, error)
      }
      for (const batch of round) for (const channel of batch.channels) channel.pending--
      // A round costs the same per identity for one change as for ten: dear rounds are made less often.
      const pause = Math.min(MAX_PAUSE_MS, (performance.now() - startedAt) / 2)
      if (pause > 5) await new Promise((resolve) => setTimeout(resolve, pause).unref())
    }
  }

  /** Something nobody foresaw: the clients come back and resume, so it costs them time but no event. */
  function letGo(audience: readonly Channel[], error: unknown): void {
    if (!stopped) observe({ level: 'error', message: 'realtime: batch failed', attrs: { error: reasonOf(error) } })
    for (const { streams } of audience) for (const stream of streams) stream.drop()
  }

  function tell(
    channel: Channel,
    parts: readonly { seq: number; changes: readonly Change[]; verdict: Verdict }[],
  ): void {
    for (const { seq: at, changes, verdict } of parts) {
      if (verdict instanceof AppError) return void failAll(channel, verdict)
      const lastFrame = verdict.at(-1)
      if (!lastFrame) continue
      const bytes = joined(verdict)
      const id = changes[lastFrame.n]?.position ?? here
      for (const stream of channel.streams) if (stream.joinedAt < at) stream.send(bytes, id)
    }
  }

  function failAll({ streams, interest }: Channel, error: AppError): void {
    observe({
      level: 'warn',
      message: 'realtime: row security check failed',
      attrs: { error: causeOf(error), session: interest.session.userId },
    })
    for (const stream of streams) stream.fail(403, 'row security check failed')
  }

  /** The database is away: the changes are still in the log, so they are judged when it is back. */
  async function again<T>(attempt: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        if (stopped || !isTransient(error)) throw error
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref())
      }
    }
  }

  function lost(position: Position): void {
    here = position
    seq++
    recent.restart(position)
    observe({ level: 'warn', message: 'realtime: position lost, streams start anew' })
    for (const stream of all) stream.send(resetFrame(position), position)
  }

  function join(stream: Stream): void {
    const { interest } = stream
    const channel = channels.get(interest.key) ?? { interest, streams: new Set(), pending: 0 }
    channels.set(interest.key, channel)
    stream.joinedAt = seq
    channel.streams.add(stream)
  }

  /** Brings a stream from the past to the present; it joins the others at the moment it has caught up. */
  async function replay(stream: Stream, from: Position): Promise<void> {
    let position = from
    while (!stream.closed) {
      if (position === here) return join(stream)
      const changes = recent.after(position) ?? (await again(() => log.read(position)))
      const last = changes.at(-1)
      if (!last) {
        // Read everything, but the live streams are elsewhere: behind us for a moment, or in another life of the log.
        if (!(await again(() => log.isKnown(position)))) {
          position = here
          stream.send(resetFrame(position), position)
        } else await new Promise((resolve) => setTimeout(resolve, 20).unref())
        continue
      }
      const { interest } = stream
      const verdicts = await again(async () => {
        const judged = await judge({ db, observe }, await schemaWith(namesIn(changes)), changes)
        return judged.isFree(interest) ? judged.free(interest) : judged.checked([interest])
      })
      const verdict = verdicts instanceof Map ? (verdicts.get(interest) ?? []) : verdicts
      if (verdict instanceof AppError) return failAll({ interest, streams: new Set([stream]), pending: 0 }, verdict)
      for (let i = 0; i < verdict.length && !stream.closed; i += 50) {
        const part = verdict.slice(i, i + 50)
        stream.send(joined(part), changes[part.at(-1)?.n ?? 0]?.position ?? position)
        await stream.drained()
      }
      position = last.position
    }
  }

  return {
    async position() {
      await running()
      return here
    },
    async isKnown(position) {
      await running()
      return recent.has(position) || log.isKnown(position)
    },
    settledFor: (stream) => (dispatching || checking || stream.joinedAt > seq ? undefined : here),
    size: () => all.size,
    streams: () => all,
    add(stream, from) {
      all.add(stream)
      if (from === here) return join(stream)
      replay(stream, from).catch((error: unknown) => {
        observe({ level: 'error', message: 'realtime: replay failed', attrs: { error: reasonOf(error) } })
        stream.fail(500, 'internal error')
      })
    },
    remove(stream) {
      all.delete(stream)
      const channel = channels.get(stream.interest.key)
      channel?.streams.delete(stream)
      if (channel?.streams.size === 0) channels.delete(stream.interest.key)
      if (all.size > 0 || stopped) return
      clearTimeout(idleTimer)
      idleTimer = setTimeout(() => {
        const idle = follower
        follower = undefined
        void idle?.then((one) => one.stop())
      }, IDLE_MS).unref()
    },
    async stop() {
      stopped = true
      clearTimeout(idleTimer)
      await (await follower)?.stop()
      await checking?.catch(() => undefined)
    },
  }
}

const namesIn = (changes: readonly Change[]): string[] => [
  ...new Set(changes.map(({ schema, name }) => `${schema}.${name}`)),
]
const causeOf = (error: AppError): string => (error.cause ? reasonOf(error.cause) : error.message)

const joinedFrames = new WeakMap<readonly Frame[], Buffer>()
/** One buffer for all who are sent the same frames. */
function joined(frames: readonly Frame[]): Buffer {
  const known = joinedFrames.get(frames)
  if (known) return known
  const [first] = frames
  const bytes = frames.length === 1 && first ? first.bytes : Buffer.concat(frames.map((frame) => frame.bytes))
  joinedFrames.set(frames, bytes)
  return bytes
}

/** The verdict on several batches, batch by batch again, numbered within each. */
function split(
  round: readonly Batch[],
  verdict: Verdict,
): { seq: number; changes: readonly Change[]; verdict: Verdict }[] {
  let offset = 0
  return round.map(({ seq, changes }) => {
    const start = offset
    offset += changes.length
    if (verdict instanceof AppError) return { seq, changes, verdict }
    const own = verdict.filter(({ n }) => n >= start && n < start + changes.length)
    return { seq, changes, verdict: own.map((frame) => ({ ...frame, n: frame.n - start })) }
  })
}
