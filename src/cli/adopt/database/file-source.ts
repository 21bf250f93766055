import { constants, lstatSync, readdirSync, realpathSync, type Stats } from 'node:fs'
import { open } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import type { Readable } from 'node:stream'
import type { Config } from '../../../config/config.ts'

type FoundFile = { size: number; open(): Promise<Readable> }

/** Where the bytes of files lie: `<bucket>/<name>` or `<tenant>/<bucket>/<name>/<version>`, at the top or a folder below. */
export interface PlaceOfFiles {
  /** Undefined where there is none; a text says why one cannot be brought. */
  find(bucket: string, name: string, version: string | null): Promise<FoundFile | string | undefined>
  close(): void
}

export const openFileSource = (from: string, config: Config): Promise<PlaceOfFiles> =>
  from.startsWith('s3://') ? openS3(from, config) : Promise.resolve(openFolder(from))

/** Folders above the bucket: tenants, and in installations of one's own a folder of the disk above them. */
const MAX_FOLDERS = 200

const placesOf = (above: readonly string[], bucket: string, name: string, version: string | null): string[] =>
  above.flatMap((folder) => [
    ...(version === null ? [] : [`${folder}${bucket}/${name}/${version}`]),
    `${folder}${bucket}/${name}`,
  ])

function openFolder(from: string): PlaceOfFiles {
  const given = resolve(from)
  const stat = lstatSync(given, { throwIfNoEntry: false })
  if (!stat?.isDirectory()) throw new Error(`${given} is no folder`)
  const root = realpathSync(given)
  const foldersIn = (folder: string): string[] =>
    readdirSync(join(root, folder), { withFileTypes: true })
      .filter((one) => one.isDirectory())
      .map(({ name }) => `${folder}${name}/`)
  const tenants = foldersIn('').slice(0, MAX_FOLDERS)
  const above = ['', ...tenants, ...tenants.flatMap(foldersIn).slice(0, MAX_FOLDERS)]
  return {
    async find(bucket, name, version) {
      for (const place of placesOf(above, bucket, name, version)) {
        const path = join(root, place)
        if (!path.startsWith(root + sep)) return 'lies outside of the given folder'
        const found = statOf(path)
        if (!found || found.isDirectory()) continue
        // A link anywhere on the way makes another path of it.
        if (!found.isFile() || realpathSync(path) !== path) return 'is a link or no file'
        return { size: found.size, open: () => openRegular(path) }
      }
      return undefined
    },
    close: () => {},
  }
}

/** A name may be too long for this file system, or lie below a file. */
function statOf(path: string): Stats | undefined {
  try {
    return lstatSync(path)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}

/** The bytes of a file that is no link and no device. */
export async function openRegular(path: string): Promise<Readable> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  if (!(await handle.stat()).isFile()) {
    await handle.close()
    throw new Error(`${path} is no regular file any more`)
  }
  return handle.createReadStream()
}

async function openS3(from: string, { storage }: Config): Promise<PlaceOfFiles> {
  const [, bucket, prefix = ''] = /^s3:\/\/([a-z0-9][a-z0-9._-]{1,62})(?:\/(.*))?$/.exec(from) ?? []
  if (bucket === undefined) throw new Error(`${from} is no place of files: expected a folder or s3://bucket/prefix`)
  const sdk = await import('@aws-sdk/client-s3')
  const { s3_endpoint: endpoint, s3_access_key: key, s3_secret_key: secret } = storage
  const client = new sdk.S3Client({
    region: storage.s3_region || 'us-east-1',
    forcePathStyle: true,
    ...(endpoint !== '' && {
      endpoint: /^https?:/.test(endpoint) ? endpoint : `${storage.s3_use_ssl ? 'https' : 'http'}://${endpoint}`,
    }),
    ...(key !== '' && { credentials: { accessKeyId: key, secretAccessKey: secret } }),
  })
  const home = prefix === '' ? '' : `${prefix.replace(/\/+$/, '')}/`
  const listed = await client.send(
    new sdk.ListObjectsV2Command({ Bucket: bucket, Prefix: home, Delimiter: '/', MaxKeys: MAX_FOLDERS }),
  )
  const above = ['', ...(listed.CommonPrefixes ?? []).flatMap(({ Prefix = '' }) => Prefix.slice(home.length))]
  return {
    async find(of, name, version) {
      for (const place of placesOf(above, of, name, version)) {
        const Key = home + place
        const head = await client.send(new sdk.HeadObjectCommand({ Bucket: bucket, Key })).catch((error: unknown) => {
          if (error instanceof sdk.NotFound || error instanceof sdk.NoSuchKey) return undefined
          throw error
        })
        if (!head) continue
        const read = async (): Promise<Readable> =>
          (await client.send(new sdk.GetObjectCommand({ Bucket: bucket, Key }))).Body as Readable
        return { size: head.ContentLength ?? 0, open: read }
      }
      return undefined
    },
    close: () => client.destroy(),
  }
}
