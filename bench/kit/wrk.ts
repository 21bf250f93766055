import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Load, Measured } from './load.ts'

export const hasWrk = (): boolean => spawnSync('wrk', ['--version']).error === undefined

const quoted = (text: string): string => `"${text.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n')}"`

/** wrk asks its script for each request; they are made before the first. */
const script = ({ requests }: Load): string => `
local requests, turn = {}, 0
function init()
${requests
  .map(({ method, path, token, body }) => {
    const headers = [
      ...(token ? [`["Authorization"]=${quoted(`Bearer ${token}`)}`] : []),
      ...(body ? ['["Content-Type"]="application/json"'] : []),
    ].join(',')
    return `  requests[#requests + 1] = wrk.format("${method}", ${quoted(path)}, {${headers}}, ${body ? quoted(body) : 'nil'})`
  })
  .join('\n')}
end
function request()
  turn = turn % #requests + 1
  return requests[turn]
end
function done(summary, latency)
  io.write(string.format('\\nMEASURED {"count":%d,"us":%d,"p50":%f,"p99":%f,"p999":%f,"refused":%d,"errors":%d}\\n',
    summary.requests, summary.duration, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    latency:percentile(99.9) / 1000,
    summary.errors.status, summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
`

type Counts = Partial<Record<'count' | 'us' | 'p50' | 'p99' | 'p999' | 'refused' | 'errors', number>>

/** The generator of Debian's package \`wrk\`: its own cost per request is a fraction of ours. */
export async function wrk(load: Load): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-wrk-'))
  const file = join(folder, 'requests.lua')
  writeFileSync(file, script(load))
  const args = ['-t1', `-c${load.connections}`, `-d${load.seconds}s`, '-s', file, `http://127.0.0.1:${load.port}`]
  // In a session of its own, as on another machine: what is measured may share that of this process.
  const child = spawn('wrk', args, { detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  for await (const chunk of child.stdout) text += chunk
  rmSync(folder, { recursive: true })
  const found = /MEASURED (.*)/.exec(text)?.[1]
  if (!found) throw new Error(`wrk measured nothing: ${text}`)
  const { count = 0, us = 1, p50 = 0, p99 = 0, p999 = 0, refused = 0, errors = 0 } = JSON.parse(found) as Counts
  const statuses = { '2xx': count - refused, ...(refused && { refused }) }
  return { rps: count / (us / 1e6), count, p50, p99, p999, errors, statuses }
}
