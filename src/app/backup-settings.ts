import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import type { BlobSource } from '../db/backup/stored/files.ts'
import { Seals } from '../db/backup/stored/seal.ts'
import { isS3Url, openTarget } from '../db/backup/target/open-target.ts'
import type { S3TargetConfig } from '../db/backup/target/s3-target.ts'
import type { BackupTarget } from '../db/backup/target/target.ts'
import { accountFor } from '../db/setup/embedded/account.ts'
import { findBinaries } from '../db/setup/embedded/binaries.ts'
import { extensionsDir } from '../db/setup/embedded/extensions.ts'
import type { Store } from '../features/storage/blobs/store.ts'

/** The passphrase, or empty. Any text file is a key file. */
export function backupPassphrase({ backup }: Config): string {
  if (backup.key_file === '') return backup.passphrase
  let text: string
  try {
    text = readFileSync(backup.key_file, 'utf8').trim()
  } catch (error) {
    throw new Error(`backup.key_file ${backup.key_file} cannot be read: ${(error as NodeJS.ErrnoException).code}`)
  }
  if (text === '') throw new Error(`backup.key_file ${backup.key_file} is empty`)
  return text
}

/** Credentials as those of file storage, unless the target has its own. */
function s3ConfigOf({ backup, storage }: Config): S3TargetConfig {
  const hasEndpoint = backup.s3_endpoint !== ''
  const hasKey = backup.s3_access_key !== ''
  return {
    endpoint: hasEndpoint ? backup.s3_endpoint : storage.s3_endpoint,
    region: backup.s3_region || storage.s3_region,
    accessKey: hasKey ? backup.s3_access_key : storage.s3_access_key,
    secretKey: hasKey ? backup.s3_secret_key : storage.s3_secret_key,
    useSsl: hasEndpoint ? backup.s3_use_ssl : storage.s3_use_ssl,
  }
}

export const openBackupTarget = (config: Config, to: string): BackupTarget => openTarget(to, s3ConfigOf(config))

/** One sentence and exit code 1 for a target that must not be written to as configured. */
export function requireSafeTarget(config: Config, to: string): void {
  const isPlain = backupPassphrase(config) === ''
  if (isPlain && isS3Url(to) && !config.backup.plain) {
    throw new Error(
      `${to} needs backup.passphrase or backup.key_file, or backup.plain = true to leave it readable there`,
    )
  }
  if (isPlain && config.database.url !== '' && config.auth.jwt_secret === '') {
    throw new Error(
      'the root secret lies in the database, and so it would in its backup: set backup.passphrase, or move it out: put the ' +
        "value of select value from svc.settings where key = 'auth.root_secret' into auth.jwt_secret and delete that row",
    )
  }
}

export const sealsOf = (config: Config, rootSecret: string | undefined): Seals =>
  new Seals({ passphrase: backupPassphrase(config) || undefined, rootSecret })

/** Where extensions that were added to the embedded PostgreSQL lie. */
export function addedExtensionsOf({ database, data_dir: dataDir }: Config): string | undefined {
  if (database.url !== '' || !existsSync(dataDir)) return undefined
  const account = accountFor(join(dataDir, 'postgres'))
  return extensionsDir(dataDir, account, findBinaries(database.embedded_bin_dir, account).major)
}

export const blobSourceOf = (config: Config, store: Pick<Store, 'bytes'>): BlobSource => ({
  isRemote: config.storage.backend === 's3',
  read: (id) => store.bytes(id),
})
