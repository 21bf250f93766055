import { readFileSync, type StatsListener, unwatchFile, watchFile } from 'node:fs'
import type { Server } from 'node:https'
import { createSecureContext } from 'node:tls'
import { reasonOf } from '../../core/errors.ts'
import type { Observe } from '../../core/observe.ts'

export type TlsFiles = { certFile: string; keyFile: string }

const LOOK_EVERY_MS = 2_000

/** Certificate and key, or a sentence about what is wrong with them. */
export function readTls({ certFile, keyFile }: TlsFiles): { cert: Buffer; key: Buffer; minVersion: 'TLSv1.2' } {
  try {
    const pair = { cert: readFileSync(certFile), key: readFileSync(keyFile), minVersion: 'TLSv1.2' } as const
    createSecureContext(pair)
    return pair
  } catch (error) {
    throw new Error(`cannot use the certificate ${certFile} with the key ${keyFile}: ${reasonOf(error)}`, {
      cause: error,
    })
  }
}

/** Uses new files for new connections. By their times, because a renewal may replace a link or a whole folder. */
export function followTls(server: Server, files: TlsFiles, observe: Observe): () => void {
  const changed: StatsListener = (now, before) => {
    if (now.mtimeMs === before.mtimeMs && now.ino === before.ino) return
    try {
      server.setSecureContext(readTls(files))
      observe({ message: 'certificate read again' })
    } catch (error) {
      // Between the writing of certificate and key they do not fit; the old pair stays until they do.
      observe({ message: 'certificate not read again', attrs: { error: reasonOf(error) } })
    }
  }
  const watched = [files.certFile, files.keyFile]
  for (const file of watched) watchFile(file, { interval: LOOK_EVERY_MS, persistent: false }, changed)
  return () => {
    for (const file of watched) unwatchFile(file, changed)
  }
}
