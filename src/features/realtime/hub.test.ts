import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { AppError, unavailable } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import type { Change, Follow } from '../../db/changes/log.ts'
import type { Position } from '../../db/changes/position.ts'
import { RealtimeClient } from './deliver/client.ts'
import { Hub } from './hub.ts'
import { type Interest, interestOf } from './subscribe/interest.ts'
import { filterOn, type Wanted, wantedTables, wants } from './subscribe/wanted.ts'
import { EncodedChanges } from './visibility/encoded-change.ts'

const user = (id: string): Identity => ({
  ...{ kind: 'user', id, email: `${id}@x.test`, aal: 'aal1', amr: [], sessionId: id },
  ...{ isAnonymous: false, expiresAt: 0 },
})
const [ANA, BO] = [user('ana'), user('bo')]
const on = (table: string, filter?: string): Wanted => wantedTables([`public.${table}`], filter)

class FakeClient extends RealtimeClient {
  readonly sent: string[] = []
  readonly ends: string[] = []
  /** While true, the client reads nothing. */
  isDeaf = false
  #unread: (() => void)[] = []

  constructor() {
    const out = new Writable({
      highWaterMark: 1,
      write: (chunk: Buffer, _encoding, done) => {
        this.sent.push(...chunk.toString().split(' ').filter(Boolean))
        if (this.isDeaf) this.#unread.push(done)
        else done()
      },
    })
    const format = {
      change: ({ position }: { position: Position }) => Buffer.from(`${position} `),
      reset: (position: Position) => Buffer.from(`reset:${position} `),
      expiring: () => Buffer.from('expiring '),
    }
    super(out, format, { who: ANA, bufferSize: 8, clock: { now: () => 0 } })
  }

  override get closed(): boolean {
    return this.ends.length > 0
  }
  override beat(): void {}
  override drop(): void {
    this.ends.push('dropped')
  }
  override fail({ status, message }: AppError): void {
    this.ends.push(`${status} ${message}`)
  }
  override leave(): void {}

  readOn(): void {
    this.isDeaf = false
    for (const done of this.#unread.splice(0)) done()
  }
}

/**
 * A log in memory, and a database that lets each user see its own rows of `secured`. `record` names the owner. What
 * PostgreSQL is asked about waits while `gate` is shut.
 */
class World {
  readonly log: Change[] = []
  /** The interests of each question to PostgreSQL, by user, and the changes it was about. */
  readonly asked: { users: string[]; positions: Position[] }[] = []
  /** Instead of an answer to these users. */
  readonly failures = new Map<string, AppError>()
  readonly observed: string[] = []
  /** Payers who are asked about alone. */
  readonly slow = new Set<string>()
  followers = 0
  reads = 0
  gate: Promise<void> = Promise.resolve()
  /** Thrown by the next questions. */
  trouble: Error | undefined
  #follow: Follow | undefined
  #id = 0

  readonly hub = new Hub({
    log: {
      head: async () => this.log.at(-1)?.position ?? '1-0',
      moment: async () => ({ includes: () => false, isOver: () => true }),
      isKnown: async (position) => this.log.some((change) => change.position === position),
      read: async (from) => {
        this.reads++
        return this.log.slice(this.log.findIndex(({ position }) => position === from) + 1).slice(0, 500)
      },
      follow: (follow) => {
        this.#follow = follow
        this.followers++
        return { stop: async () => void this.followers-- }
      },
    },
    clock: { now: () => 0 },
    isSlow: (payer) => this.slow.has(payer),
    view: async (changes) => this.#view(changes),
    observe: ({ message }) => this.observed.push(message),
  })

  /** Appends without a page: another process wrote it, and this one has not read it. */
  append(table: string, owner = ''): Position {
    const position = `1-${++this.#id}`
    this.log.push({
      position,
      at: 0,
      action: 'create',
      oid: 1,
      shape: '1',
      schema: 'public',
      name: table,
      pk: '{}',
      record: owner,
    })
    return position
  }

  /** Commits rows of a table, which are one page of the log. */
  async commit(table: string, ...owners: string[]): Promise<Position> {
    for (const owner of owners.length > 0 ? owners : ['']) this.append(table, owner)
    return this.page(Math.max(1, owners.length))
  }

  async page(count: number): Promise<Position> {
    const changes = this.log.slice(-count)
    await this.#follow?.onBatch(changes)
    return changes.at(-1)?.position ?? ''
  }

  lose(position: Position): void {
    this.#follow?.onLost(position)
  }

  shutGate(): () => void {
    let open = (): void => {}
    this.gate = new Promise((resolve) => {
      open = resolve
    })
    return open
  }

  async join(who: Identity, wanted: Wanted, last?: Position) {
    const client = new FakeClient()
    const { from, isReset, moment } = await this.hub.startAt(last)
    const subscription = this.hub.subscribe(client, interestOf(who, wanted), { from, moment })
    return { client, subscription, from, isReset, sent: client.sent, ends: client.ends }
  }

  #view(changes: readonly Change[]) {
    const relevantTo = ({ wanted }: Interest): readonly Change[] =>
      changes.filter(({ name }) => wants(wanted, `public.${name}`))
    const encode = (some: readonly Change[]): EncodedChanges =>
      new EncodedChanges(
        some.map(({ position, action, name: table }) => ({
          ...{ position, key: `public.${table}`, action, table, record: '', bytes: new Map() },
        })),
      )
    const unchecked = (interest: Interest): EncodedChanges | undefined => {
      const relevant = relevantTo(interest)
      const isFree = relevant.every(({ name }) => name === 'open' && !filterOn(interest.wanted, `public.${name}`))
      return isFree ? encode(relevant) : undefined
    }
    const verdict = (interest: Interest): EncodedChanges | AppError => {
      const { userId } = interest.session
      const mine = relevantTo(interest).filter(({ name, record }) => name !== 'secured' || record === userId)
      return this.failures.get(userId) ?? encode(mine)
    }
    return {
      unchecked,
      check: async (asked: readonly Interest[]) => {
        const users = asked.map(({ session }) => session.userId)
        this.asked.push({ users, positions: changes.map(({ position }) => position) })
        await this.gate
        const { trouble } = this
        if (trouble) throw trouble
        return new Map(asked.map((interest) => [interest, unchecked(interest) ?? verdict(interest)]))
      },
    }
  }
}

/** Everything that waits for nothing but its turn has happened. */
async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) await nextTurn()
}

test('each gets the changes of its tables that it may see, in order', async () => {
  const world = new World()
  const [ana, bo, other] = [
    await world.join(ANA, on('secured')),
    await world.join(BO, on('secured')),
    await world.join(BO, on('open')),
  ]
  await world.commit('secured', 'ana', 'bo', 'ana')
  await world.commit('open')
  await world.commit('secured', 'bo')
  await settled()
  assert.deepEqual([ana.sent, bo.sent, other.sent], [['1-1', '1-3'], ['1-2', '1-5'], ['1-4']])
})

test('PostgreSQL is asked once for all that see the same, and nothing about tables without policies', async () => {
  const world = new World()
  for (let i = 0; i < 3; i++) await world.join(ANA, on('secured'))
  await world.join(BO, on('secured'))
  await world.join(BO, on('open'))
  await world.commit('open')
  assert.deepEqual(world.asked, [])
  await world.commit('secured', 'ana')
  await settled()
  assert.deepEqual(world.asked, [{ users: ['ana', 'bo'], positions: ['1-2'] }])
})

test('nothing overtakes a change that is being checked, and no other group waits for it', async () => {
  const world = new World()
  const both = await world.join(ANA, wantedTables(['public.secured', 'public.open'], undefined))
  const open = await world.join(BO, on('open'))
  const openGate = world.shutGate()
  await world.commit('secured', 'ana')
  await world.commit('open')
  await settled()
  assert.deepEqual([both.sent, open.sent], [[], ['1-2']])
  openGate()
  await settled()
  assert.deepEqual(both.sent, ['1-1', '1-2'])
})

test('pages that come during a check are one question in the next round', async () => {
  const world = new World()
  const ana = await world.join(ANA, on('secured'))
  const openGate = world.shutGate()
  for (let i = 0; i < 4; i++) await world.commit('secured', 'ana')
  openGate()
  await settled()
  assert.deepEqual(
    world.asked.map(({ positions }) => positions),
    [['1-1'], ['1-2', '1-3', '1-4']],
  )
  assert.deepEqual(ana.sent, ['1-1', '1-2', '1-3', '1-4'])
})

test('a subscriber that joins a group during its check gets what comes after it joined', async () => {
  const world = new World()
  const first = await world.join(ANA, on('secured'))
  const openGate = world.shutGate()
  await world.commit('secured', 'ana')
  const second = await world.join(ANA, on('secured'))
  assert.equal(second.subscription.position, '1-1')
  await world.commit('secured', 'ana')
  openGate()
  await settled()
  await world.commit('secured', 'ana')
  await settled()
  assert.deepEqual(
    [first.sent, second.sent],
    [
      ['1-1', '1-2', '1-3'],
      ['1-2', '1-3'],
    ],
  )
  assert.equal(second.subscription.position, '1-3')
})

test('a check that begins further back sends nothing twice to groups that were level', async () => {
  const world = new World()
  const ana = await world.join(ANA, on('secured'))
  const openGate = world.shutGate()
  await world.commit('secured', 'ana', 'bo')
  await world.commit('secured', 'bo')
  const bo = await world.join(BO, on('secured'))
  await world.commit('secured', 'bo')
  openGate()
  await settled()
  assert.deepEqual([ana.sent, bo.sent], [['1-1'], ['1-4']])
})

test('a client resumes after its last id, and joins the others without loss or repetition', async () => {
  const world = new World()
  const live = await world.join(ANA, on('secured'))
  for (let i = 0; i < 3; i++) await world.commit('secured', 'ana')
  const openGate = world.shutGate()
  const back = await world.join(ANA, on('secured'), '1-1')
  assert.deepEqual([back.from, back.isReset], ['1-1', false])
  await world.commit('secured', 'ana')
  openGate()
  await settled()
  await world.commit('secured', 'ana')
  await settled()
  assert.deepEqual(back.sent, ['1-2', '1-3', '1-4', '1-5'])
  assert.deepEqual(live.sent, ['1-1', ...back.sent])
  assert.equal(world.reads, 0, 'recent changes are in memory')
})

test('what is no longer in memory is read from the log, page by page', async () => {
  const world = new World()
  for (let i = 0; i < 1_200; i++) world.append('open')
  const back = await world.join(ANA, on('open'), '1-1')
  await settled()
  assert.deepEqual([back.sent.length, back.sent[0], back.sent.at(-1)], [1_199, '1-2', '1-1200'])
  assert.equal(world.reads, 3)
})

test('a client that comes from a process further ahead waits until this one is there', async (t) => {
  const world = new World()
  await world.join(BO, on('open'))
  world.append('open')
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const ana = await world.join(ANA, on('open'), '1-1')
  await settled()
  assert.deepEqual(ana.sent, [])
  await world.page(1)
  await world.commit('open')
  t.mock.timers.tick(20)
  await settled()
  assert.deepEqual(ana.sent, ['1-2'])
})

test('an unknown position is the present, and said to be a reset', async () => {
  const world = new World()
  await world.commit('open')
  const { from, isReset } = await world.join(ANA, on('open'), '7-7')
  assert.deepEqual([from, isReset], ['1-1', true])
})

test('when the log loses its position all are reset, and nothing of the old log follows', async () => {
  const world = new World()
  const [ana, open] = [await world.join(ANA, on('secured')), await world.join(BO, on('open'))]
  const openGate = world.shutGate()
  await world.commit('secured', 'ana')
  world.lose('1-0')
  openGate()
  await settled()
  await world.commit('open')
  await world.commit('secured', 'ana')
  await settled()
  assert.deepEqual(
    [ana.sent, open.sent],
    [
      ['reset:1-0', '1-3'],
      ['reset:1-0', '1-2'],
    ],
  )
})

test('another interest counts from a position: what stays is neither lost nor repeated', async () => {
  const world = new World()
  const { subscription, sent } = await world.join(ANA, on('secured'))
  const openGate = world.shutGate()
  await world.commit('secured', 'ana')
  await world.commit('open')
  const wanted = wantedTables(['public.secured', 'public.open'], undefined)
  assert.equal(world.hub.change(subscription, interestOf(ANA, wanted)), '1-0')
  openGate()
  await settled()
  await world.commit('open')
  await settled()
  assert.deepEqual(sent, ['1-1', '1-2', '1-3'])
})

test('a table that is added from an earlier position is brought to where the others are', async () => {
  const world = new World()
  const { subscription, sent } = await world.join(ANA, on('secured'))
  for (let i = 0; i < 2; i++) {
    await world.commit('open')
    await world.commit('secured', 'ana')
  }
  await settled()
  const wanted = wantedTables(['public.secured', 'public.open'], undefined)
  world.hub.change(subscription, interestOf(ANA, wanted), {
    missed: { wanted: on('open'), position: '1-1' },
  })
  await world.commit('open')
  await settled()
  assert.deepEqual(sent, ['1-2', '1-4', '1-3', '1-5'])
})

test('a client that does not read is dropped, and no other waits for it', async () => {
  const world = new World()
  const [slow, good] = [await world.join(ANA, on('open')), await world.join(ANA, on('open'))]
  slow.client.isDeaf = true
  for (let i = 0; i < 9; i++) await world.commit('open')
  assert.deepEqual([slow.ends, good.ends, good.sent.length], [['dropped'], [], 9])
})

test('a replay waits for its client instead of dropping it', async () => {
  const world = new World()
  for (let i = 0; i < 200; i++) world.append('open')
  const back = await world.join(ANA, on('open'), '1-1')
  back.client.isDeaf = true
  await settled()
  assert.deepEqual([back.sent.length, back.ends], [50, []])
  assert.equal(back.subscription.position, '1-51')
  back.client.readOn()
  await settled()
  assert.deepEqual([back.sent.length, back.ends], [199, []])
})

test('a policy that raises ends the subscriptions of its identity alone; they may come back', async () => {
  const world = new World()
  const [ana, bo] = [await world.join(ANA, on('secured')), await world.join(BO, on('secured'))]
  world.failures.set('ana', new AppError('bad_request', 'division by zero'))
  await world.commit('secured', 'bo')
  await settled()
  assert.deepEqual([ana.ends, bo.ends, bo.sent], [['403 row security check failed'], [], ['1-1']])
  world.failures.clear()
  const again = await world.join(ANA, on('secured'), '1-1')
  await world.commit('secured', 'ana')
  await settled()
  assert.deepEqual([again.sent, again.ends], [['1-2'], []])
})

test('an unforeseen failure drops those it concerns, who resume; others go on', async () => {
  const world = new World()
  const [ana, open] = [await world.join(ANA, on('secured')), await world.join(BO, on('open'))]
  world.trouble = new TypeError('oops')
  await world.commit('secured', 'ana')
  await settled()
  await world.commit('open')
  assert.deepEqual([ana.ends, open.ends, open.sent], [['dropped'], [], ['1-2']])
  assert.deepEqual(world.observed, ['realtime: batch failed'])
})

test('while the database is away changes wait, and are judged when it is back', async (t) => {
  const world = new World()
  const ana = await world.join(ANA, on('secured'))
  t.mock.timers.enable({ apis: ['setTimeout'] })
  world.trouble = unavailable('away')
  await world.commit('secured', 'ana')
  for (let i = 0; i < 3; i++) await afterTimers(t, 250)
  assert.deepEqual([ana.sent, ana.ends, world.asked.length], [[], [], 4])
  world.trouble = undefined
  await afterTimers(t, 250)
  assert.deepEqual(ana.sent, ['1-1'])
})

test('a filter of one identity holds up no other, and not its own subscriptions without one', async () => {
  const world = new World()
  const costly = await world.join(ANA, on('open', 'costly'))
  const [plain, bo] = [await world.join(ANA, on('secured')), await world.join(BO, on('open', 'cheap'))]
  const openGate = world.shutGate()
  await world.commit('open')
  world.gate = Promise.resolve()
  for (let i = 0; i < 5; i++) await world.commit('secured', 'ana')
  await settled()
  assert.deepEqual([costly.sent, bo.sent, plain.sent.length], [[], [], 5])
  openGate()
  await settled()
  assert.deepEqual([costly.sent, bo.sent], [['1-1'], ['1-1']])
})

test('a filter that exceeds its budget ends its subscription with 429', async () => {
  const world = new World()
  const { ends } = await world.join(ANA, on('open', 'costly'))
  world.failures.set('ana', new AppError('filter_too_slow', 'filter takes too long'))
  await world.commit('open')
  await settled()
  assert.deepEqual(ends, ['429 filter takes too long'])
})

test('the log is read as long as there are subscriptions, and half a minute longer', async (t) => {
  const world = new World()
  const { subscription } = await world.join(ANA, on('open'))
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const start = await world.hub.startAt(undefined)
  world.hub.unsubscribe(subscription)
  const late = world.hub.subscribe(new FakeClient(), interestOf(ANA, on('open')), start)
  await afterTimers(t, 30_000)
  assert.equal(world.followers, 1)
  world.hub.unsubscribe(late)
  await afterTimers(t, 29_999)
  assert.equal(world.followers, 1)
  await afterTimers(t, 1)
  assert.equal(world.followers, 0)
  world.append('open')
  const back = await world.join(ANA, on('open'))
  assert.deepEqual([world.followers, back.from], [1, '1-1'])
})

async function afterTimers(t: TestContext, ms: number): Promise<void> {
  await settled()
  t.mock.timers.tick(ms)
  await settled()
}
