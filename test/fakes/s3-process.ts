import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

// s3rver from npm in a process of its own, with the two calls it has not got: what is being uploaded, and ending that.
// Arguments: folder, port, bucket.

type Context = {
  method: string
  path: string
  query: Record<string, string | undefined>
  status: number
  type: string
  body: unknown
}
type S3rver = {
  middleware: ((context: Context, next: () => Promise<void>) => Promise<void>)[]
  store: { getResourcePath(bucket: string, key: undefined, resource: string): string }
  run(): Promise<unknown>
}
const create = createRequire(import.meta.url)('s3rver') as new (options: object) => S3rver

/** Small, so that a client must ask for the rest. */
const PAGE = 2

const [directory = '', port = '', bucket = ''] = process.argv.slice(2)
mkdirSync(directory, { recursive: true })
const server = new create({
  directory,
  address: '127.0.0.1',
  port: Number(port),
  silent: true,
  vhostBuckets: false,
  configureBuckets: [{ name: bucket }],
})
const uploads = server.store.getResourcePath(bucket, undefined, 'uploads')

function underWay(): { key: string; id: string; since: Date }[] {
  let ids: string[] = []
  try {
    ids = readdirSync(uploads)
  } catch {
    // none yet
  }
  return ids
    .filter((id) => existsSync(join(uploads, id, 'key')))
    .map((id) => {
      const file = join(uploads, id, 'key')
      return { key: readFileSync(file, 'utf8'), id, since: statSync(file).mtime }
    })
    .sort((a, b) => (a.key + a.id < b.key + b.id ? -1 : 1))
}

function page({ prefix = '', 'key-marker': key = '', 'upload-id-marker': id = '' }: Context['query']): string {
  const rest = underWay().filter((upload) => upload.key.startsWith(prefix) && upload.key + upload.id > key + id)
  const shown = rest.slice(0, PAGE)
  const last = shown.at(-1)
  const markers =
    last && `<NextKeyMarker>${last.key}</NextKeyMarker><NextUploadIdMarker>${last.id}</NextUploadIdMarker>`
  const items = shown.map(
    (one) =>
      `<Upload><Key>${one.key}</Key><UploadId>${one.id}</UploadId><Initiated>${one.since.toISOString()}</Initiated></Upload>`,
  )
  return `<?xml version="1.0" encoding="UTF-8"?><ListMultipartUploadsResult><Bucket>${bucket}</Bucket>
    <IsTruncated>${rest.length > shown.length}</IsTruncated>${markers ?? ''}${items.join('')}</ListMultipartUploadsResult>`
}

server.middleware.unshift(async (context, next) => {
  const { method, path, query } = context
  if (method === 'GET' && path.replace(/\/$/, '') === `/${bucket}` && 'uploads' in query) {
    context.type = 'application/xml'
    context.body = page(query)
  } else if (method === 'DELETE' && query['uploadId'] !== undefined) {
    rmSync(join(uploads, query['uploadId'].replaceAll(/\W/g, '')), { recursive: true, force: true })
    context.status = 204
  } else await next()
})
await server.run()
