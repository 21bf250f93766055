import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What packages call them. */
const PACKAGES: ReadonlyMap<string, string> = new Map([
  ['vector', 'pgvector'],
  ['postgis', 'postgis-3'],
])
const BREW_FOLDERS = ['/opt/homebrew/opt', '/usr/local/opt']

/** Where the extension can be had on this machine without root; else what to do by hand. */
export function fetchExtension(name: string, major: number): { path: string; folder?: string } | { byHand: string } {
  const part = PACKAGES.get(name)
  const debian = part && `postgresql-${major}-${part}`
  if (process.platform === 'darwin' && part) {
    const folder = BREW_FOLDERS.map((dir) => join(dir, part)).find((dir) => existsSync(dir))
    if (folder) return { path: folder }
    return { byHand: `brew install ${part}\nsvc extensions add ${name}` }
  }
  if (debian && process.platform === 'linux' && existsSync('/usr/bin/apt-get')) {
    const folder = mkdtempSync(join(tmpdir(), 'svc-package-'))
    chmodSync(folder, 0o755)
    const { status } = spawnSync('apt-get', ['-q', '-o', 'APT::Sandbox::User=root', 'download', debian], {
      cwd: folder,
      stdio: 'ignore',
    })
    const [file] = status === 0 ? readdirSync(folder).filter((entry) => entry.endsWith('.deb')) : []
    if (file) return { path: join(folder, file), folder }
    return {
      byHand: `this machine knows no package ${debian}; https://apt.postgresql.org has it:\napt-get install postgresql-common && /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh\nsvc extensions add ${name}`,
    }
  }
  return {
    byHand: `build ${part ?? name} for PostgreSQL ${major}, or unpack a package of it, and name its folder:\nsvc extensions add ${name} --from DIR`,
  }
}
