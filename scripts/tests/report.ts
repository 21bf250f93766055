import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'

export type Batch = {
  root: string
  /** Bundled files in start order. */
  files: string[]
  concurrency: number
  timeoutMs: number
  signal: AbortSignal
  /** The folder of bundled files, whose positions are mapped to the sources. */
  code: string
}

/**
 * For processes that run most of their code a few times: V8 optimises later, which otherwise takes a sixth of their
 * processor time, and collects garbage less often.
 */
const FOR_SHORT_RUNS = ['--interrupt-budget=500000', '--min-semi-space-size=16']

/** Runs each file in its own process and prints as `node --test` does. Returns seconds by file, and whether all passed. */
export async function runBatch({ root, files, concurrency, timeoutMs, signal, code }: Batch) {
  const seconds = new Map<string, number>()
  let failed = false
  // Node hands its own flags on to the processes of tests. The servers they spawn have those of users.
  process.execArgv.push(...FOR_SHORT_RUNS)
  const results = run({ files, concurrency, signal, timeout: timeoutMs })
  results.on('test:fail', ({ todo }) => {
    if (todo === undefined || todo === false) failed = true
  })
  results.on('test:complete', ({ name, file, nesting, details }) => {
    if (nesting === 0 && resolve(root, name) === file) seconds.set(file, details.duration_ms / 1000)
  })
  await pipeline(results, new spec(), sourcePositions(root, code), process.stdout, { end: false })
  return { seconds, passed: !failed }
}

/** Maps positions in the output, because loading source maps in each process takes a third of its start. */
const sourcePositions = (root: string, code: string) => {
  const maps = new Map<string, SourceMap>()
  const mapOf = (file: string): SourceMap => {
    const map = maps.get(file) ?? new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8')))
    maps.set(file, map)
    return map
  }
  const position = new RegExp(
    `(?:file://|[./]+)?${code}/([^\\s():]+)\\.js(?::(\\d+):(\\d+))?`.replaceAll('/', '\\/'),
    'g',
  )
  const inSource = (_: string, name: string, line = '1', column = '1'): string => {
    const file = join(code, `${name}.js`)
    const entry = mapOf(file).findEntry(Number(line) - 1, Number(column) - 1)
    if (!('originalSource' in entry)) return `${name}.ts`
    const source = relative(root, resolve(dirname(file), entry.originalSource))
    return `${source}:${entry.originalLine + 1}:${entry.originalColumn + 1}`
  }
  return async function* (chunks: AsyncIterable<string | Buffer>) {
    for await (const chunk of chunks) {
      const blocks = String(chunk)
        .replace(position, inSource)
        .split(/^(?=test at )/m)
      yield blocks.map(atTest).join('')
    }
  }
}

/** All tests are made in in-turn.ts, says Node; where this one is, its stack says. */
const atTest = (block: string): string =>
  block.replace(
    /^test at .*in-turn\.ts.*/,
    () => `test at ${/\S+\.test\.ts:\d+:\d+/.exec(block)?.[0].replace('(', '')}`,
  )
