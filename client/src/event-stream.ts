import { backOff, type Core, NEVER, sleep } from './core.ts'
import { ApiError, SessionEnded } from './errors.ts'

/** The server gives a sign of life every 25 s. */
const SILENCE_MS = 35_000
/** A stream begins at once; where the network died, an attempt over a kept connection has no answer. */
const OPEN_MS = 10_000

export type Followed = {
  readonly path: string
  readonly query: Readonly<Record<string, unknown>>
  /** Up to here everything was heard. */
  position: string | undefined
  /** True when that says that the stream has begun. `data` is parsed. */
  onEvent(name: string | undefined, data: unknown, id: string | undefined): boolean
  onLost(): void
  onRefused(error: ApiError): void
  /** There is no session; another stream is opened after the next sign-in. */
  onWaiting?: (error: ApiError) => void
}

/** Reads until the stream ends or `stop` aborts. */
async function read(core: Core, followed: Followed, stop: AbortController, onLive: () => void): Promise<void> {
  const { path, query, position } = followed
  const headers = position === undefined ? {} : { 'last-event-id': position }
  const { body } = await core.send<Response>(
    'GET',
    path,
    { query, as: 'response' },
    {
      headers,
      retry: 0,
      timeout: OPEN_MS,
      signal: stop.signal,
    },
  )
  const end = (): void => stop.abort()
  let silence = setTimeout(end, SILENCE_MS)
  const left = core.caller.left()
  // A stream ends with its token: the next one goes on where this one was.
  const renewal = left < NEVER ? setTimeout(end, Math.max(0, left) + 50) : undefined
  try {
    let text = ''
    const decoder = new TextDecoder()
    const reader = (body as ReadableStream<Uint8Array>).getReader()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      clearTimeout(silence)
      silence = setTimeout(end, SILENCE_MS)
      text += decoder.decode(value, { stream: true })
      const events = text.split('\n\n')
      text = events.pop() ?? ''
      for (const event of events) {
        if (stop.signal.aborted) return
        const fields = new Map(
          event.split('\n').map((line) => line.split(/: ?([\s\S]*)/).slice(0, 2) as [string, string]),
        )
        const [data, id] = [fields.get('data'), fields.get('id')]
        if (id !== undefined) followed.position = id
        if (data !== undefined && followed.onEvent(fields.get('event'), core.parse(data), id)) onLive()
      }
    }
  } finally {
    clearTimeout(silence)
    clearTimeout(renewal)
  }
}

/** An event stream read by `fetch`, again and again from where it was, until the answer is called. */
export function followStream(core: Core, followed: Followed): () => void {
  let stop = new AbortController()
  let isOver = false
  async function run(): Promise<void> {
    for (let failures = 0; ; failures++) {
      stop = new AbortController()
      try {
        await read(core, followed, stop, () => {
          failures = 0
        })
      } catch (error) {
        if (isOver || error instanceof SessionEnded) return
        if (error instanceof ApiError && error.status < 500 && error.status !== 429) {
          return error.error === 'unauthorized' ? followed.onWaiting?.(error) : followed.onRefused(error)
        }
      }
      if (isOver) return
      followed.onLost()
      if (!stop.signal.aborted) await sleep(backOff(failures))
      if (isOver) return
    }
  }
  void run()
  return () => {
    isOver = true
    stop.abort()
  }
}
