import { accessSync, constants, statSync } from 'node:fs'
import type { Config } from '../../config/config.ts'
import { isLoopbackHost } from '../../http/out/address-guard.ts'
import { type DoctorItem, finding, orFine } from './finding.ts'

/** What the configuration says, without a look at anything else but the data directory. */
export function examineConfiguration(config: Config, warnings: readonly string[]): readonly DoctorItem[] {
  const { server, admin, api, data_dir: dataDir } = config
  const found = warnings.map((warning) =>
    finding('configuration', warning, 'remove it, or correct its name (docs/config.md lists all of them)'),
  )
  const add = (message: string, fix: string): void => void found.push(finding('configuration', message, fix))
  if (!isLoopbackHost(server.host) && server.public_base_url === '') {
    add(
      `the server listens on ${server.host}, and links in mails point to http://${server.host}:${server.port}`,
      'set server.public_base_url to the address that people use',
    )
  }
  if (server.public_base_url.startsWith('http:') && !isLoopbackHost(new URL(server.public_base_url).hostname)) {
    add(
      `server.public_base_url is ${server.public_base_url}: passwords and tokens travel unencrypted`,
      'use https, by server.tls_cert_file and server.tls_key_file or a proxy',
    )
  }
  for (const range of server.trusted_proxies) {
    if (/\/0$/.test(range)) {
      add(
        `server.trusted_proxies has ${range}: every caller may claim any address, past rate limits`,
        'list the addresses of the proxies alone',
      )
    }
  }
  if (admin.enabled && admin.password !== '' && admin.password.length < MIN_ADMIN_PASSWORD) {
    add(
      `admin.password has fewer than ${MIN_ADMIN_PASSWORD} characters`,
      'set a longer one, or none: then one is generated',
    )
  }
  if (api.anonymous === 'all' && !isLoopbackHost(server.host)) {
    add(
      'callers without an account may write (api.anonymous is all) and the server listens for others than this machine',
      'set api.anonymous to read or none, unless row level security is on for every table',
    )
  }
  return [...orFine('configuration', 'the configuration is valid', found), ...examineDataDir(dataDir)]
}

const MIN_ADMIN_PASSWORD = 12

function examineDataDir(dataDir: string): readonly DoctorItem[] {
  const found: DoctorItem[] = []
  const stat = statSync(dataDir, { throwIfNoEntry: false })
  if (stat && (stat.mode & 0o022) !== 0) {
    const message = `other accounts of this machine may write to the data directory ${dataDir}`
    found.push(finding('data directory', message, `chmod go-w ${dataDir}`))
  }
  if (stat && !stat.isDirectory()) {
    found.push(finding('data directory', `${dataDir} is not a folder`, 'set data_dir to a folder'))
  } else if (stat && !mayWrite(dataDir)) {
    const message = `this account may not write to the data directory ${dataDir}`
    found.push(finding('data directory', message, `give it to the account that runs the server: chown`))
  }
  return orFine('data directory', `${dataDir} is for the server alone`, found)
}

function mayWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}
