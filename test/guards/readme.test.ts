import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { runWithClient } from '../kit/client-program.ts'
import { startServer } from '../kit/kit.ts'

const readme = readFileSync('README.md', 'utf8')
const PASSWORD = 'the operator knows'

/** The code blocks of a section. */
const blocks = (section: string, language: string): string[] => {
  const text = readme.split(`\n## ${section}\n`)[1]?.split('\n## ')[0] ?? ''
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].flatMap(([, is, code]) =>
    is === language ? [code ?? ''] : [],
  )
}

const folder = mkdtempSync(join(tmpdir(), 'svc-readme-'))
after(() => rmSync(folder, { recursive: true, force: true }))

test('the tour of the README works as written, in a shell and in a browser', async () => {
  const api = await startServer({ config: { 'admin.password': PASSWORD } })
  const here = (code: string): string =>
    code.replaceAll('http://localhost:8090', api.url).replace('<the printed password>', PASSWORD)
  const [make = '', use = '', files = '', watch = ''] = blocks('Five minutes', 'sh').map(here)
  assert.match(watch, /curl -N /) // which does not end
  const script = [make, use, files.replace(/^node dist.*$/m, '')]
    .join('\n')
    .replaceAll('curl -s', 'curl -sS --fail-with-body')
  const { stdout } = await promisify(execFile)('sh', ['-ec', script], { cwd: folder })
  const answers = stdout
    .replaceAll('}{', '}\n{')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  assert.deepEqual(
    answers.map(({ title, totalItems, created }) => title ?? totalItems ?? created),
    [undefined, 'feed the lions', 1, 0, 2],
  )

  const [program = ''] = blocks('In a browser, and in programs', 'ts').map(here)
  const { stdout: said } = await runWithClient(program)
  assert.match(said, /feed the lions/)
  assert.deepEqual(await api.sql('select title from notes order by id desc limit 1'), [{ title: 'water the acacia' }])
})
