import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { shortOfSpace } from '../../app/disk-space.ts'
import type { Config } from '../../config/config.ts'
import { reasonOf } from '../../core/errors.ts'
import { type DoctorItem, finding, fine, orFine } from './finding.ts'

const SOON_DAYS = 14
const DAY_MS = 86_400_000

/** Free space where the server writes. */
export async function examineDisk(config: Config): Promise<readonly DoctorItem[]> {
  const fix = 'make room or use a larger disk: PostgreSQL stops when there is none left'
  const found = (await shortOfSpace(config)).map((message) => finding('disk', message, fix))
  return orFine('disk', 'there is room', found)
}

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
