import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { startServer } from '../kit/kit.ts'

const run = promisify(execFile)
const sections = readFileSync('docs/api.md', 'utf8').split(/^(?=## )/m)

/** The code blocks of one language, in the order of the page. */
const blocks = (section: string, language: string): string[] =>
  [...section.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].flatMap(([, is, text]) => (is === language ? [text ?? ''] : []))

/** One command per line, where a line goes on after a backslash or inside quotes. */
const commands = (block: string): string[] =>
  block
    .replaceAll('\\\n', ' ')
    .split(/^(?=curl )/m)
    .filter((command) => command.startsWith('curl '))

test('the curl examples of collections and RPC work, on the tables shown there', async () => {
  const api = await startServer()
  const shown = sections.filter((section) => /^## (Collections|RPC)\n/.test(section))
  assert.equal(shown.length, 2)
  for (const ddl of shown.flatMap((section) => blocks(section, 'sql'))) await api.sql(ddl)
  // Some of them write files.
  const folder = mkdtempSync(join(tmpdir(), 'svc-curl-'))
  let count = 0
  for (const command of shown.flatMap((section) => blocks(section, 'sh')).flatMap(commands)) {
    const script = command.replace('curl ', `curl -sS -w '\\n%{http_code}' `).replaceAll('localhost:8090', api.url)
    const { stdout } = await run('sh', ['-c', script], { cwd: folder })
    const status = Number(stdout.trimEnd().split('\n').at(-1))
    assert.ok(status >= 200 && status < 300, `${command}\n${stdout}`)
    count++
  }
  assert.ok(count >= 10)
})
