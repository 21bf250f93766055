import { createPrivateKey, X509Certificate } from 'node:crypto'
import { existsSync, readFileSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Config } from '../../config/config.ts'
import { reasonOf } from '../../core/errors.ts'
import { type DoctorItem, finding, fine, orFine } from './finding.ts'

const SOON_DAYS = 14
const DAY_MS = 86_400_000
const LEAST_FREE = 0.05
const LEAST_FREE_BYTES = 1024 ** 3

/** Free space where the server writes; folders of one file system count once. */
export function examineDisk({ data_dir: dataDir, storage, database }: Config): readonly DoctorItem[] {
  const isLocal = storage.backend === 'local'
  const folders = [...(isLocal ? [storage.local_path] : []), ...(database.url === '' ? [dataDir] : [])]
  const byDevice = new Map(folders.map((folder) => [statSync(existing(folder)).dev, folder]))
  const found = [...byDevice.values()].flatMap((folder) => {
    const { bavail, blocks, bsize } = statfsSync(existing(folder))
    const free = bavail * bsize
    const usual = Math.min(LEAST_FREE_BYTES, blocks * bsize * LEAST_FREE)
    const least = Math.max(isLocal ? storage.disk_reserve : 0, usual)
    if (free >= least) return []
    const message = `${gigabytes(free)} are free for ${folder}, less than ${gigabytes(least)}`
    return [finding('disk', message, 'make room or use a larger disk: PostgreSQL stops when there is none left')]
  })
  return orFine('disk', 'there is room', found)
}

const gigabytes = (bytes: number): string => `${(bytes / 1024 ** 3).toFixed(1)} GB`
const existing = (path: string): string => (existsSync(path) || path === dirname(path) ? path : existing(dirname(path)))

/** The certificate that the server itself uses. */
export function examineCertificates({ server }: Config, now = Date.now()): readonly DoctorItem[] {
  const { tls_cert_file: certFile, tls_key_file: keyFile } = server
  if (certFile === '' && keyFile === '') return [fine('certificates', 'TLS is left to a proxy')]
  const found: DoctorItem[] = []
  const add = (message: string, fix: string): void => void found.push(finding('certificates', message, fix))
  try {
    const certificate = new X509Certificate(readFileSync(certFile))
    const left = Date.parse(certificate.validTo) - now
    if (Date.parse(certificate.validFrom) > now) {
      add(`the certificate ${certFile} is not valid before ${certificate.validFrom}`, 'check the clock of this machine')
    }
    if (left <= 0)
      add(
        `the certificate ${certFile} ended on ${certificate.validTo}`,
        'renew it; the server reads the new one by itself',
      )
    else if (left < SOON_DAYS * DAY_MS) {
      add(
        `the certificate ${certFile} ends on ${certificate.validTo}`,
        'renew it; the server reads the new one by itself',
      )
    }
    if (!certificate.checkPrivateKey(createPrivateKey(readFileSync(keyFile)))) {
      add(`${keyFile} is not the key of the certificate ${certFile}`, 'set server.tls_key_file to its key')
    }
  } catch (error) {
    add(
      `the certificate or its key cannot be read: ${reasonOf(error)}`,
      'check server.tls_cert_file and server.tls_key_file',
    )
  }
  return orFine('certificates', 'the certificate is good', found)
}
