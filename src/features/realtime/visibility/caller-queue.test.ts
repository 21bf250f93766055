import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { AppError } from '../../../core/errors.ts'
import { CallerQueue, SHARES } from './caller-queue.ts'

const TOO_EXPENSIVE = { errorCode: 'filter_too_slow', message: 'filter takes too long' }

/** A queue whose time passes when `tick` is called, and filters that end when they are told to. */
function start(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let now = 0
  const queue = new CallerQueue({ now: () => now }, SHARES.filters)
  const running: string[] = []
  const ends = new Map<string, (ms: number | Error) => void>()
  const run = (identity: string, name = identity) =>
    queue.run(identity, () => {
      running.push(name)
      return new Promise<{ ms: number }>((resolve, reject) => {
        ends.set(name, (result) => {
          running.splice(running.indexOf(name), 1)
          if (result instanceof Error) reject(result)
          else resolve({ ms: result })
        })
      })
    })
  const end = async (name: string, result: number | Error) => {
    ends.get(name)?.(result)
    await nextTurn()
  }
  const tick = async (ms: number) => {
    now += ms
    t.mock.timers.tick(ms)
    await nextTurn()
  }
  return { queue, running, run, end, tick }
}

test('one filter of an identity runs at a time, and two of all', async (t) => {
  const { running, run, end } = start(t)
  void run('ana', 'ana 1')
  void run('ana', 'ana 2')
  await nextTurn()
  assert.deepEqual(running, ['ana 1'])
  void run('bo')
  void run('eve')
  await nextTurn()
  assert.deepEqual(running, ['ana 1', 'bo'])
  await end('ana 1', 1)
  assert.deepEqual(running, ['bo', 'eve'])
  await end('bo', 1)
  assert.deepEqual(running, ['eve', 'ana 2'])
})

test('after an expensive filter its identity rests for three times as long, a second at most; others go on', async (t) => {
  const { running, run, end, tick } = start(t)
  for (const name of ['ana 1', 'ana 2', 'ana 3']) void run('ana', name)
  await nextTurn()
  await end('ana 1', 60)
  await tick(179)
  assert.deepEqual(running, [])
  void run('bo')
  await nextTurn()
  assert.deepEqual(running, ['bo'])
  await tick(1)
  assert.deepEqual(running, ['bo', 'ana 2'])
  await end('ana 2', 900)
  await tick(1_000)
  assert.deepEqual(running, ['bo', 'ana 3'])
})

test('filters of one identity share a budget, which a tenth of the time that passes fills up', async (t) => {
  const { queue, run, end, tick } = start(t)
  for (let i = 0; i < 2; i++) {
    const done = run('ana')
    await nextTurn()
    await end('ana', 1_150)
    await tick(1_000)
    await done
  }
  // 2,300 ms were spent, of which 200 have been filled up.
  await assert.rejects(run('ana'), TOO_EXPENSIVE)
  assert.throws(() => queue.requireBudget('ana'), TOO_EXPENSIVE)
  queue.requireBudget('bo')
  await tick(1_001)
  queue.requireBudget('ana')
})

test('a filter that hits its time limit spends the budget: those that wait behind it are not tried', async (t) => {
  const { running, run, end, tick, queue } = start(t)
  const [first, second] = [run('ana', 'ana 1'), run('ana', 'ana 2')]
  const refusals = Promise.all([assert.rejects(first, TOO_EXPENSIVE), assert.rejects(second, TOO_EXPENSIVE)])
  await nextTurn()
  await end('ana 1', new AppError('timeout', 'statement timeout'))
  await refusals
  assert.deepEqual(running, [])
  await tick(20_001)
  queue.requireBudget('ana')
})

test('any other failure costs nothing and is passed on', async (t) => {
  const { run, end, queue } = start(t)
  const failed = assert.rejects(run('ana'), { message: 'invalid filter' })
  await nextTurn()
  await end('ana', new AppError('bad_request', 'invalid filter'))
  await failed
  queue.requireBudget('ana')
})

test('who is not known to be slow has a short try first, and waits for no slow one', async (t) => {
  const { queue, running, run, end } = start(t)
  const timeouts: number[] = []
  const ask = (payer: string, ...answers: (number | Error)[]) =>
    queue.ask(payer, async (timeoutMs) => {
      timeouts.push(timeoutMs)
      const answer = answers.shift() ?? 0
      if (answer instanceof Error) throw answer
      return { ms: answer }
    })
  for (const name of ['a', 'b']) void run(name)
  await nextTurn()
  assert.deepEqual(running, ['a', 'b'])
  assert.equal(queue.isSlow('eve'), false)
  assert.deepEqual(await ask('eve', 7), { ms: 7 })
  assert.deepEqual([timeouts, queue.isSlow('eve')], [[500], false])
  const late = ask('eve', new AppError('statement_timeout', 'too slow'), 1)
  await nextTurn()
  assert.deepEqual([timeouts, queue.isSlow('eve')], [[500, 500], true])
  await end('a', 1)
  assert.deepEqual(await late, { ms: 1 })
  assert.deepEqual(timeouts, [500, 500, 5_000])
})
