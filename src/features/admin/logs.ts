import { badRequest, unauthorized } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { parseMoment } from '../../core/moment.ts'
import type { LogEntry } from '../../core/observe.ts'
import { limitOf } from '../../core/page.ts'
import { type Call, json, type Reply, type Route, route } from '../../http/route.ts'
import * as answers from './answers.ts'

export type LogsDeps = {
  logs: {
    /** `log.buffer_size` */
    size: number
    /** Of every process of this server, each oldest first. */
    entries: () => Promise<LogEntry[][]>
  }
  resolveToken: (token: string) => Promise<Identity | undefined>
}

const PATH = '/api/admin/logs'
const LEVELS = ['DEBUG', 'INFO', 'WARN', 'ERROR']
const LONGEST_WAIT = 20
const POLL_MS = 400
/** Requests that wait at the same time; a further one is answered at once. */
const MAX_WAITING = 50
const CURSOR = /^[0-9a-f]{8}-\d{1,15}(,[0-9a-f]{8}-\d{1,15}){0,255}$/

const query = {
  level: t.oneOf(['debug', 'info', 'warn', 'error'], { description: 'the least level' }),
  since: t.string({ description: 'a time (RFC 3339) or date: entries from then on' }),
  search: t.string({ description: 'a text in the message or an attribute, in any case' }),
  find: t.string({ description: 'the same as `search`' }),
  limit: t.integer({ description: 'the newest so many' }),
  after: t.string({ description: '`next` of an earlier answer: what came since' }),
  wait: t.integer({ description: 'with `after`: seconds to wait for an entry', maximum: LONGEST_WAIT }),
}

/** The log of all workers, filtered; following it is asking again with `after`, so that rights are judged each time. */
export function logRoutes({ logs, resolveToken }: LogsDeps): { routes: Route[]; drain(): void } {
  /** Ends the pause of each request that waits. */
  const waiting = new Set<() => void>()
  let isStopping = false

  const pause = (ms: number, { cancelSignal }: Call): Promise<void> =>
    new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        cancelSignal.removeEventListener('abort', end)
        waiting.delete(end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      cancelSignal.addEventListener('abort', end)
      waiting.add(end)
    })

  async function read(call: Call): Promise<{ entries: LogEntry[]; next: string }> {
    const { after, find = '', search = find, since, level } = call.query
    const from = since === undefined ? Number.NEGATIVE_INFINITY : parseMoment(since, 'since').at.getTime()
    const seen = cursorOf(after)
    const all = (await logs.entries()).flat()
    const next = new Map(seen)
    for (const { id } of all) {
      const [tag, number] = partsOf(id)
      next.set(tag, Math.max(number, next.get(tag) ?? 0))
    }
    const least = level === undefined ? 0 : LEVELS.indexOf(level.toUpperCase())
    const wanted = search.toLowerCase()
    const fits = (entry: LogEntry): boolean => {
      const [tag, number] = partsOf(entry.id)
      if (number <= (seen.get(tag) ?? -1) || LEVELS.indexOf(entry.level) < least) return false
      // Or following would follow itself.
      if (after !== undefined && entry.attrs?.['route'] === PATH && entry.level === 'INFO') return false
      return Date.parse(entry.time) >= from && (wanted === '' || textOf(entry).includes(wanted))
    }
    const { limit } = limitOf(call.query, { limit: logs.size, maxLimit: logs.size })
    const entries = all.filter(fits).sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0))
    // A process that ended has no entry any more, and needs no place in the cursor.
    const alive = new Set(all.map(({ id }) => partsOf(id)[0]))
    return {
      entries: entries.slice(-limit),
      next: [...next].flatMap(([tag, number]) => (alive.has(tag) ? [`${tag}-${number}`] : [])).join(),
    }
  }

  async function handle(call: Call): Promise<Reply> {
    if (logs.size === 0) return json(200, { entries: [], message: 'log buffer is off' })
    const first = await read(call)
    const seconds = call.query['after'] === undefined ? 0 : waitOf(call.query['wait'])
    if (first.entries.length > 0 || seconds === 0 || waiting.size >= MAX_WAITING) return json(200, first)
    const deadline = performance.now() + seconds * 1000
    let latest = first
    while (latest.entries.length === 0 && performance.now() < deadline && !isStopping) {
      await pause(POLL_MS, call)
      if (call.cancelSignal.aborted) break
      latest = await read(call)
    }
    // One that was signed out meanwhile reads nothing more.
    const token = /^bearer +(\S+)$/i.exec(call.headers['authorization'] ?? '')?.[1]
    if (token === undefined || !(await resolveToken(token)))
      throw unauthorized('invalid or expired token', 'invalid_token')
    return json(200, latest)
  }

  return {
    routes: [
      route(`GET ${PATH}`, {
        summary: 'The latest log entries, oldest first; with `after` those since, once there are some',
        leastRole: 'viewer',
        auth: 'admin',
        query,
        answers: { 200: answers.logs },
        handle,
      }),
    ],
    drain() {
      isStopping = true
      for (const end of [...waiting]) end()
    },
  }
}

function cursorOf(text: string | undefined): Map<string, number> {
  if (text === undefined || text === '') return new Map()
  if (!CURSOR.test(text)) throw badRequest('invalid cursor', 'invalid_cursor')
  return new Map(text.split(',').map(partsOf))
}

const partsOf = (id: string): [tag: string, number: number] => {
  const [tag = '', number = ''] = id.split('-')
  return [tag, Number(number)]
}

const waitOf = (text = '0'): number => (/^\d{1,4}$/.test(text) ? Math.min(Number(text), LONGEST_WAIT) : 0)

const textOf = ({ message, attrs }: LogEntry): string =>
  `${message} ${Object.values(attrs ?? {}).join(' ')}`.toLowerCase()
