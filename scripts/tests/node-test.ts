// Replaces node:test in bundled test files, so that one process can run several of them, one after another. Each file has
// its own hooks.
import { test as nodeTest, type TestContext } from 'node:test'
import { end, endProcess } from '../../test/kit/at-end.ts'

type Work = () => unknown
type Body = (t: TestContext) => unknown

class TestFile {
  readonly befores: Work[] = []
  readonly beforeEaches: Work[] = []
  readonly afterEaches: Work[] = []
  readonly afters: Work[] = []
  readonly tests: Promise<void>[] = []
  #ready: Promise<void> | undefined

  ready(): Promise<void> {
    this.#ready ??= inOrder(this.befores)
    return this.#ready
  }
}

let file = new TestFile()

async function inOrder(all: readonly Work[]): Promise<void> {
  for (const work of all) await work()
}

export function test(name: string, ...[options, given]: [object, Body] | [Body]): Promise<void> {
  const own = file
  const body = typeof options === 'function' ? (options as Body) : given
  const run = async (t: TestContext): Promise<void> => {
    await own.ready()
    await inOrder(own.beforeEaches)
    try {
      await body?.(t)
    } finally {
      await inOrder(own.afterEaches)
    }
  }
  const done = nodeTest(name, typeof options === 'function' ? {} : options, run)
  file.tests.push(done)
  return done
}

export const before = (work: Work): void => void file.befores.push(work)
export const beforeEach = (work: Work): void => void file.beforeEaches.push(work)
export const after = (work: Work): void => void file.afters.push(work)
export const afterEach = (work: Work): void => void file.afterEaches.push(work)

/** Loads and runs each file. A failure outside of its tests is reported as a test with the file's name. */
export async function runFiles(files: Record<string, () => Promise<unknown>>): Promise<void> {
  for (const [name, load] of Object.entries(files)) {
    file = new TestFile()
    const fails = (error: unknown) => nodeTest(name, () => Promise.reject(error))
    await load().catch(fails)
    await Promise.all(file.tests)
    for (const work of [end, ...file.afters]) await Promise.resolve().then(work).catch(fails)
  }
  await endProcess()
}
