import type { Identity } from '../src/core/identity.ts'
import { type Sql, sql } from '../src/db/sql.ts'
import { openPool } from '../src/db/wire/pool.ts'
import { jsonText, route } from '../src/http/route.ts'
import { createHttpServer } from '../src/http/server.ts'

/** The kernel alone: the HTTP server, the pool, and one route that flies one statement under an identity. */
export const readNote = (id: number): Sql =>
  sql`select pg_catalog.to_json(n.*)::text from public.notes n where n.id = ${id}::pg_catalog.int4`

async function serve({ url, userId, noteId }: { url: string; userId: string; noteId: number }): Promise<number> {
  const who: Identity = {
    kind: 'user',
    id: userId,
    email: 'bench@example.com',
    aal: 'aal1',
    amr: ['password'],
    sessionId: '',
    isAnonymous: false,
    expiresAt: Number.MAX_SAFE_INTEGER,
  }
  const db = await openPool({
    url,
    maxConns: 25,
    minConns: 2,
    acquireTimeoutMs: 10_000,
    preparedStatements: true,
    schemas: ['public'],
    statementTimeoutMs: 30_000,
    observe: () => {},
  })
  const http = createHttpServer({
    routes: [
      route('GET /flight', {
        summary: 'One flight',
        auth: 'optional',
        answers: {},
        handle: async (call) => jsonText(200, (await db.fly(call.who, readNote(noteId))) ?? ''),
      }),
    ],
    identify: () => who,
    limiter: { takeToken: () => Promise.reject(new Error('nothing is limited here')) },
    audit: async () => {},
    authEnabled: true,
    observe: () => {},
    config: {
      host: '127.0.0.1',
      port: 0,
      publicBaseUrl: 'http://localhost',
      corsOrigins: ['*'],
      trustedProxies: [],
      bodyLimit: 1_000_000,
      shutdownTimeoutSeconds: 1,
      rateLimits: {},
    },
  })
  return (await http.listen()).port
}

// As a process of its own: the setup as JSON on standard input, the port on standard output.
if (process.argv[1]?.endsWith('kernel.ts')) {
  let input = ''
  for await (const chunk of process.stdin) input += chunk
  process.stdout.write(`${await serve(JSON.parse(input))}\n`)
}
