import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { test } from 'node:test'
import { type LogLevel, type Observation, operatorWarning } from '../../core/observe.ts'
import { jsonLine, textLine } from './lines.ts'
import { createLog } from './log.ts'
import { createRing } from './ring.ts'
import { createLineWriter } from './writer.ts'

const AT = Date.UTC(2026, 0, 2, 3, 4, 5, 678)
const TIME = '2026-01-02T03:04:05.678Z'

/** The sinks take any words. */
const said = (level: LogLevel, message: string, attrs: NonNullable<Observation['attrs']> = {}): Observation => ({
  ...operatorWarning(message),
  level,
  attrs,
})

function capture() {
  const chunks: string[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(String(chunk))
      done()
    },
  })
  return { chunks, stream: Object.assign(stream, { fd: -1 }) as unknown as NodeJS.WriteStream & { fd: 1 } }
}

test('a line is JSON with its attributes beside the message', () => {
  const attrs = { status: 200, path: '/a"b', userId: null, missing: undefined }
  assert.equal(
    jsonLine(said('info', 'request', attrs), AT),
    `{"time":"${TIME}","level":"info","message":"request","status":200,"path":"/a\\"b","userId":null}\n`,
  )
  assert.equal(jsonLine(said('warn', 'x'), AT), `{"time":"${TIME}","level":"warn","message":"x"}\n`)
})

test('a text line cannot be made to look like two', () => {
  assert.equal(textLine(said('warn', 'a\nb', { error: 'x\ny', n: 1 }), AT), `${TIME} WARN  "a\\nb" error="x\\ny" n=1\n`)
})

test('lines are written together and below the level not at all', () => {
  const { chunks, stream } = capture()
  const log = createLog({ level: 'info', format: 'text', buffer_size: 10 }, stream)
  log.observe(said('debug', 'quiet'))
  log.observe(said('info', 'one'))
  log.observe(said('error', 'two'))
  assert.deepEqual(chunks, [])
  log.flush()
  assert.equal(chunks.length, 1)
  assert.match(chunks[0] ?? '', /^\S+ INFO {2}one\n\S+ ERROR two\n$/)
  assert.deepEqual(
    log.entries().map(({ level, message }) => [level, message]),
    [
      ['INFO', 'one'],
      ['ERROR', 'two'],
    ],
  )
})

test('secrets reach neither the line nor the buffer', () => {
  for (const format of ['json', 'text'] as const) {
    const { chunks, stream } = capture()
    const log = createLog({ level: 'info', format, buffer_size: 10 }, stream)
    const attrs = { path: '/api/realtime?token=s3cret&x=1', form: 'password=s3cret', error: 'Bearer s3cret' }
    log.observe(said('info', 'called /cb?code=s3cret', attrs))
    log.flush()
    assert.doesNotMatch(chunks.join(''), /s3cret/)
    assert.deepEqual(log.entries()[0]?.attrs, {
      path: '/api/realtime?token=***&x=1',
      form: 'password=***',
      error: 'Bearer ***',
    })
    assert.equal(log.entries()[0]?.message, 'called /cb?code=***')
  }
})

test('the ring keeps the newest entries, oldest first', () => {
  let now = AT
  const ring = createRing(3, () => now++)
  for (const message of ['a', 'b', 'c', 'd', 'e']) ring.sink(said('info', message))
  assert.deepEqual(
    ring.entries().map(({ message }) => message),
    ['c', 'd', 'e'],
  )
  assert.equal(ring.entries()[0]?.time, '2026-01-02T03:04:05.680Z')
  const off = createRing(0)
  off.sink(said('info', 'a'))
  assert.deepEqual(off.entries(), [])
})

test('a reader that stopped reading costs lines, not memory', () => {
  const written: string[] = []
  let unread = 0
  const stream = Object.assign(capture().stream, { write: (text: string) => written.push(text) > 0 })
  Object.defineProperty(stream, 'writableLength', { get: () => unread })
  const writer = createLineWriter(stream, textLine, () => AT)
  unread = 100 * 1024 * 1024
  for (let i = 0; i < 3; i++) writer.sink(said('info', 'lost'))
  writer.flush()
  assert.deepEqual(written, [])
  unread = 0
  writer.sink(said('info', 'kept'))
  writer.flush()
  assert.equal(written.join(''), `${TIME} WARN  log lines dropped: nobody read them lines=3\n${TIME} INFO  kept\n`)
})
