import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Context } from './command/command.ts'
import { callAdmin, serverUrl } from './command/server-api.ts'

/** How long a browser may take to read the file that it is handed. */
const READ_MS = 4_000

/**
 * Opens the dashboard signed in, by a code that is good once. It stands in a file that only this account reads, because the
 * arguments of a program and the history of a shell are seen by others.
 */
export async function openDashboard(context: Context): Promise<number> {
  const url = serverUrl(context, context.config().config)
  const { code } = JSON.parse(await callAdmin(context, '/api/admin/auth/code', {})) as { code: string }
  const address = `${url}/admin/#code=${code}`
  if (await isOpened(address)) {
    context.print(context.json ? JSON.stringify({ url: `${url}/admin/` }) : `opened ${url}/admin/`)
    return 0
  }
  if (process.stdout.isTTY) {
    context.print(`no browser opens here; this address is good once, for 60 seconds:\n${address}`)
    return 0
  }
  process.stderr.write(`no browser opens here: open ${url}/admin/ and sign in\n`)
  return 1
}

async function isOpened(address: string): Promise<boolean> {
  const browser = browserOf()
  if (!browser) return false
  const folder = mkdtempSync(join(tmpdir(), 'svc-open-'))
  try {
    const file = join(folder, 'open.html')
    const page = `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Savanna</title>
<script>location.replace(${JSON.stringify(address)})</script>`
    writeFileSync(file, page, { mode: 0o600 })
    if (!(await runs(browser, pathToFileURL(file).href))) return false
    // The browser reads it after the program that called it has ended.
    await new Promise((resolve) => setTimeout(resolve, READ_MS))
    return true
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function browserOf(): readonly string[] | undefined {
  const { BROWSER, DISPLAY, WAYLAND_DISPLAY } = process.env
  if (BROWSER) return [BROWSER]
  if (process.platform === 'darwin') return ['open']
  if (process.platform === 'win32') return ['cmd', '/c', 'start', '']
  return DISPLAY || WAYLAND_DISPLAY ? ['xdg-open'] : undefined
}

const runs = ([program = '', ...args]: readonly string[], address: string): Promise<boolean> =>
  new Promise((resolve) => {
    const child = spawn(program, [...args, address], { stdio: 'ignore' })
    child.once('error', () => resolve(false))
    child.once('exit', (code) => resolve(code === 0))
  })
