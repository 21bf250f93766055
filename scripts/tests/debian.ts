import { execFileSync } from 'node:child_process'
import { accessSync, constants, existsSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const release = existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : ''
export const isDebian12 = /^VERSION_CODENAME=bookworm$/m.test(release)
export const mayInstall = isDebian12 && process.getuid?.() === 0

/** Runs a command and returns its output; throws the output when the command fails. */
export function quietly(command: string, args: string[], cwd = '/'): string {
  try {
    return execFileSync(command, args, {
      cwd,
      encoding: 'utf8',
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 64 * 1024 ** 2,
    })
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${command} ${args.join(' ')} failed:\n${stdout.slice(-2000)}${stderr.slice(-2000)}`, {
      cause: error,
    })
  }
}

const apt = (...args: string[]): string => quietly('apt-get', ['-q', '-y', '-o', 'DPkg::Lock::Timeout=300', ...args])

export function install(...packages: string[]): void {
  const args = ['install', '--no-install-recommends', ...packages]
  try {
    apt(...args)
  } catch {
    // The package lists may be missing or outdated.
    apt('update')
    apt(...args)
  }
}

const isOnPath = (program: string): boolean =>
  [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin'].some((dir) => {
    try {
      accessSync(join(dir, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })

/** Installs programs that tests use, from packages of the same name. Without them, those tests are skipped. */
export function ensurePrograms(programs: string[], log: (line: string) => void): void {
  const missing = programs.filter((program) => !isOnPath(program))
  if (missing.length === 0 || !mayInstall) return
  log(`installing ${missing.join(', ')} (apt-get) …`)
  install(...missing)
}
