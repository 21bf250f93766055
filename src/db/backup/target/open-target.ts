import { resolve } from 'node:path'
import { DiskTarget } from './disk-target.ts'
import { S3Target, type S3TargetConfig } from './s3-target.ts'
import type { BackupTarget } from './target.ts'

export const isS3Url = (to: string): boolean => to.startsWith('s3://')

/** A folder, or `s3://bucket/prefix`. */
export function openTarget(to: string, s3: S3TargetConfig): BackupTarget {
  if (!isS3Url(to)) return new DiskTarget(resolve(to))
  const [, bucket, prefix = ''] = /^s3:\/\/([a-z0-9][a-z0-9._-]{1,62})(?:\/(.*))?$/.exec(to) ?? []
  const folders = prefix.replace(/\/+$/, '')
  const isSafe = folders.split('/').every((folder) => folders === '' || /^[A-Za-z0-9][\w.-]*$/.test(folder))
  if (bucket === undefined || !isSafe)
    throw new Error(`not a backup target: ${to} (expected a folder or s3://bucket/prefix)`)
  return new S3Target(bucket, folders, s3)
}
