import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { eventually } from '../../test/kit/eventually.ts'
import { freePort } from '../../test/kit/free-port.ts'
import { startServer } from '../../test/kit/kit.ts'
import { svc as program } from '../../test/kit/programs.ts'
import { completionFor } from './command/completion.ts'
import { commands } from './commands.ts'

const home = mkdtempSync(join(tmpdir(), 'svc-hour-'))
const dataDir = join(home, 'data')
const open = new Set<ChildProcess>()
after(async () => {
  for (const terminal of open) terminal.kill('SIGKILL')
  await eventually(() => rmSync(home, { recursive: true, force: true }))
})
const env = { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'], SVC_DATA_DIR: dataDir, TERM: 'xterm' }

/** A command on a terminal of its own, by script(1) of util-linux, which every Debian has. */
function onTerminal(args: readonly string[], more: NodeJS.ProcessEnv = {}): { terminal: ChildProcess; text(): string } {
  const line = [process.execPath, ...program, ...args].map((word) => `'${word}'`).join(' ')
  const terminal = spawn('script', ['-qfec', `exec ${line}`, '/dev/null'], {
    cwd: home,
    env: { ...env, ...more },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  open.add(terminal)
  let text = ''
  terminal.stdout.on('data', (chunk) => (text += chunk))
  terminal.stderr.on('data', (chunk) => (text += chunk))
  return { terminal, text: () => text }
}

const pidIn = (file: string): number => Number(readFileSync(join(dataDir, file), 'utf8').split('\n')[0])
const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
const hasTerminal = spawnSync('script', ['--version']).status === 0
const skip = hasTerminal ? false : 'script(1) is not installed'

test('the first start on a terminal is readable, and closing the terminal stops the database too', {
  skip,
}, async () => {
  const port = await freePort()
  const { terminal, text } = onTerminal(['start', '--port', String(port)])
  await eventually(() => assert.match(text(), /is ready/), { seconds: 120 })
  const shown = text()
  assert.equal(shown.match(/migration/g)?.length, 1, shown)
  assert.match(shown, /database prepared: \d+ migrations in \d+\.\d s/)
  assert.match(shown, new RegExp(`Dashboard +http://localhost:${port}/admin/ \\(svc open signs you in\\)`))
  assert.doesNotMatch(shown, /curl|#code=|no vector search/)
  if (shown.includes('vector is not installed'))
    assert.match(shown, /vector is not installed \(.+\): svc extensions add vector/)

  await fetch(`http://127.0.0.1:${port}/health?x=${encodeURIComponent('\x1b[2J')}`)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are made of them
  await eventually(() => assert.match(text(), /\x1b\[32mINFO \x1b\[0m request method=GET/))
  assert.doesNotMatch(text(), /\{"time"/)

  const server = pidIn('svc.pid')
  const postmaster = pidIn('postgres/postmaster.pid')
  assert.ok(isAlive(server) && isAlive(postmaster))
  terminal.kill('SIGKILL')
  await eventually(() => assert.deepEqual([isAlive(server), isAlive(postmaster)], [false, false]), { seconds: 60 })
})

test('away from a terminal the log is JSON, and a hung up detached server goes on', async () => {
  const port = await freePort()
  const run = (args: string[]) =>
    spawnSync(process.execPath, [...program, ...args], { cwd: home, env, encoding: 'utf8' })
  const started = run(['start', '--detach', '--port', String(port)])
  assert.equal(started.status, 0, started.stderr)
  try {
    process.kill(pidIn('svc.pid'), 'SIGHUP')
    await eventually(async () => {
      assert.equal((await fetch(`http://127.0.0.1:${port}/health`)).status, 200)
      const log = readFileSync(join(dataDir, 'svc.log'), 'utf8')
      assert.match(log, /^\{"time":"[^"]+","level":"info","message":"request"/m)
    })

    const opened = join(home, 'opened')
    const browser = join(home, 'browser')
    writeFileSync(
      browser,
      `#!/bin/sh\nf=$(echo "$1" | sed 's,^file://,,')\nstat -c %a "$f" > ${opened}\ncat "$f" >> ${opened}\n`,
    )
    chmodSync(browser, 0o755)
    const called = spawnSync(process.execPath, [...program, 'open'], {
      cwd: home,
      env: { ...env, BROWSER: browser },
      encoding: 'utf8',
    })
    assert.deepEqual([called.status, called.stderr], [0, ''])
    assert.doesNotMatch(called.stdout, /code/)
    const [mode, ...page] = readFileSync(opened, 'utf8').split('\n')
    assert.equal(mode, '600')
    const code = /\/admin\/#code=([0-9a-f]{64})"/.exec(page.join('\n'))?.[1]
    const exchange = () =>
      fetch(`http://127.0.0.1:${port}/api/admin/auth`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ code }),
      })
    assert.deepEqual([(await exchange()).status, (await exchange()).status], [200, 401])

    const nowhere = run(['open'])
    assert.deepEqual([nowhere.status, nowhere.stdout], [1, ''])
    assert.match(nowhere.stderr, /^no browser opens here: open http:\S+\/admin\/ and sign in\n$/)
    if (hasTerminal) {
      const { terminal, text } = onTerminal(['open'])
      await new Promise((resolve) => terminal.once('close', resolve))
      assert.match(text(), /good once, for 60 seconds:\s+http:\S+\/admin\/#code=[0-9a-f]{64}/)
    }
  } finally {
    run(['stop'])
  }
  assert.ok(!existsSync(join(dataDir, 'svc.pid')))
})

test('open tables are one line, whatever their number', async () => {
  const api = await startServer()
  for (let i = 0; i < 5; i++) await api.sql(`create table open_${i} (id int primary key)`)
  const next = await startServer({ on: api })
  const lines = next.observations.filter(({ message }) => message.startsWith('anybody may write'))
  assert.deepEqual(
    lines.map(({ attrs }) => attrs),
    [{ count: 5, tables: 'public.open_0, public.open_1, public.open_2' }],
  )
})

test('every command has two examples that it would take, and says what its options are for', () => {
  for (const [name, { examples, flags = {}, about = {} }] of commands) {
    assert.equal(examples?.length, 2, `svc ${name} has two examples`)
    for (const example of examples ?? []) assert.match(example, new RegExp(`svc ${name}\\b`))
    assert.deepEqual(Object.keys(about).sort(), Object.keys(flags).sort(), `svc ${name} says what its options are for`)
  }
})

test('bash completes commands, their second words and their options', () => {
  const script = completionFor('bash', commands, ['json', 'port'])
  const complete = (...words: string[]) => {
    const setup = `COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _svc; echo "\${COMPREPLY[*]}"`
    return spawnSync('bash', ['-c', `${script}\n${setup}`], { encoding: 'utf8' }).stdout.trim()
  }
  assert.equal(complete('svc', 'sta'), 'start status')
  assert.equal(complete('svc', 'migrate', ''), 'up create status')
  assert.equal(complete('svc', 'start', '--de'), '--detach')
  assert.equal(complete('svc', 'start', '--po'), '--port')
  assert.match(complete('svc', 'users', ''), /^list show create .*import$/)
  assert.equal(complete('svc', 'help', 'sta'), 'start status')
  assert.match(complete('svc', 'he'), /^help$/)
  assert.match(completionFor('zsh', commands, []), /^#compdef svc\n/)
  assert.match(completionFor('fish', commands, []), /^complete -c svc -f -n __fish_use_subcommand -a start -d '/)
})
