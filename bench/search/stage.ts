import pg from 'pg'
import { startPostgres } from '../kit/postgres.ts'
import { type Stage, startBuilt } from '../kit/processes.ts'

export const AT_ONCE = 32

/** A PostgreSQL, the built server on it, connections for SQL by hand, and a user. */
export type SearchStage = {
  server: Stage
  pool: pg.Pool
  user: { id: string; token: string }
  /** With the admin token; throws unless it made something. */
  build(path: string, json: object): Promise<void>
  stop(): Promise<void>
}

export async function startStage(binDir?: string): Promise<SearchStage> {
  const settings = { max_connections: '200', shared_buffers: '512MB', maintenance_work_mem: '512MB' }
  const cluster = await startPostgres({ settings, ...(binDir && { binDir }) })
  const server = await startBuilt(cluster.url, { SVC_RATE_LIMIT_API: 'off', SVC_AUTH_TOKEN_DURATION: '12h' })
  const pool = new pg.Pool({ connectionString: cluster.url, max: AT_ONCE })
  const post = async (path: string, json: object, token?: string): Promise<unknown> => {
    const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) }
    const url = `http://127.0.0.1:${server.port}${path}`
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(json) })
    if (!answer.ok) throw new Error(`${path} answered ${answer.status} ${await answer.text()}`)
    return answer.json()
  }
  const registered = await post('/api/auth/register', { email: 'bench@example.com', password: 'long enough password' })
  const { token, user } = registered as { token: string; user: { id: string } }
  const { token: admin } = (await post('/api/admin/auth', { password: 'bench' })) as { token: string }
  return {
    server,
    pool,
    user: { id: user.id, token },
    build: async (path, json) => void (await post(path, json, admin)),
    stop: async () => {
      await pool.end()
      await server.stop()
      await cluster.stop()
    },
  }
}
