import { connect } from 'node:net'
import type { AuditEntry } from '../../src/core/audit-entry.ts'
import { unauthorized } from '../../src/core/errors.ts'
import type { Identity } from '../../src/core/identity.ts'
import type { Observation } from '../../src/core/observe.ts'
import { createLimiter } from '../../src/http/rate-limit.ts'
import { route as declared, type HttpMethod, type Route, type RouteDefinition } from '../../src/http/route.ts'
import { createHttpServer, type HttpServer, type HttpServerConfig, type RequestInfo } from '../../src/http/server.ts'
import { atEnd } from './at-end.ts'

/** A route of a test, which need not say what it answers. */
export const route = <const At extends `${HttpMethod} /${string}`, Body = unknown>(
  at: At,
  definition: Omit<RouteDefinition<At, Body>, 'summary' | 'answers'>,
): Route => declared(at, { summary: 'a route of a test', answers: {}, ...definition })

export type Bench = {
  url: string
  port: number
  server: HttpServer
  requests: RequestInfo[]
  observations: Observation[]
  audited: AuditEntry[]
}

const grant = { tables: [], files: { read: true, write: false }, appId: null } as const
const key = { kind: 'key', via: 'api_key', userId: 'u-key', email: 'k@x.test', expiresAt: null } as const

/** Bearers that the servers of these tests know. */
const people: Readonly<Record<string, Identity>> = {
  ana: {
    kind: 'user',
    id: 'u-ana',
    email: 'ana@x.test',
    aal: 'aal1',
    amr: [],
    sessionId: 's',
    isAnonymous: false,
    expiresAt: 0,
  },
  pending: { kind: 'mfa', id: 'u-mfa', email: 'm@x.test', amr: [], pendingId: 'p', expiresAt: 0 },
  operator: { kind: 'admin', tokenId: 't', role: 'owner', expiresAt: 0 },
  readonly: { ...key, keyId: 'k-ro', grant: { ...grant, scope: 'readonly' } },
  readwrite: { ...key, keyId: 'k-rw', grant: { ...grant, scope: 'readwrite' } },
  app: { ...key, keyId: 'k-app', grant: { ...grant, scope: '*', appId: 'app-1' } },
}

type Options = Partial<HttpServerConfig> & {
  authEnabled?: boolean
  appLimit?: (appId: string) => { max: number; seconds: number } | null
  onDrain?: () => void
}

/** The web server alone, on a port of its own, with counters in memory. */
export async function serve(
  routes: Route[],
  { authEnabled = true, appLimit, onDrain, ...config }: Options = {},
): Promise<Bench> {
  const requests: RequestInfo[] = []
  const observations: Observation[] = []
  const audited: AuditEntry[] = []
  const counts = new Map<string, number>()
  const server = createHttpServer({
    routes,
    identify: (bearer) => {
      const who = people[bearer]
      if (!who) throw unauthorized('invalid or expired token')
      return who
    },
    limiter: createLimiter({
      counters: {
        add: async (subject, seconds) => {
          const count = (counts.get(subject) ?? 0) + 1
          counts.set(subject, count)
          return { count, secondsLeft: seconds, resetAt: 2_000_000_000 }
        },
      },
    }),
    audit: async (entry) => void audited.push(entry),
    authEnabled,
    ...(appLimit && { appLimit }),
    ...(onDrain && { onDrain }),
    observe: (observation) => void observations.push(observation),
    onRequest: (info) => void requests.push(info),
    config: {
      host: '127.0.0.1',
      port: 0,
      publicBaseUrl: 'http://localhost:8090',
      corsOrigins: ['*'],
      trustedProxies: [],
      bodyLimit: 64 * 1024,
      shutdownTimeoutSeconds: 5,
      rateLimits: {},
      ...config,
    },
  })
  atEnd(() => server.stop())
  const { url, port } = await server.listen()
  return { url, port, server, requests, observations, audited }
}

/** Bytes as they are, for what no HTTP client would send. Resolves to all that came back when the server closed. */
export function sendRaw(port: number, ...parts: (string | Buffer)[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    let text = ''
    socket.setEncoding('latin1')
    socket.on('data', (chunk) => (text += chunk))
    socket.on('error', (error) => (text === '' ? reject(error) : resolve(text)))
    socket.on('close', () => resolve(text))
    for (const part of parts) socket.write(part)
  })
}

/** An answer of sendRaw taken apart. */
export function parseRaw(text: string): { status: number; headers: Map<string, string>; body: string } {
  const [head = '', body = ''] = text.split('\r\n\r\n')
  const [first = '', ...lines] = head.split('\r\n')
  const headers = new Map(lines.map((line) => [line.split(':')[0]?.toLowerCase() ?? '', line.replace(/^[^:]*: /, '')]))
  return { status: Number(first.split(' ')[1]), headers, body }
}
