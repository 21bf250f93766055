import { type CallOptions, type Core, queryText, segment } from './core.ts'
import { countingFetch, type OnProgress } from './progress.ts'

export type StoredFile = {
  id: string
  bucket: string
  name: string
  size: number
  contentType: string
  userId?: string
  createdAt: string
  updatedAt: string
  /** Not of private buckets. */
  url?: string
}

type Content = Blob | ArrayBuffer | ArrayBufferView<ArrayBuffer> | string
type UploadOptions = CallOptions & { contentType?: string; onProgress?: OnProgress }

export type Storage = ReturnType<typeof createStorage>

/** Files in buckets. */
export function createStorage(core: Core) {
  core.counting = countingFetch
  function bucket(name: string) {
    const path = `/api/storage/${segment(name)}`
    const pathOf = (file: string): string => `${path}/${file.split('/').map(segment).join('/')}`
    return {
      async upload(file: string, content: Content, { contentType, onProgress, ...call }: UploadOptions = {}) {
        const body = new FormData()
        const blob =
          content instanceof Blob && !contentType ? content : new Blob([content], { type: contentType ?? '' })
        body.append('name', file)
        body.append('file', blob, file.split('/').pop())
        return core.send<StoredFile>('POST', path, { body, fetch: onProgress && countingFetch(onProgress) }, call)
      },
      async download(file: string, call?: CallOptions): Promise<Blob> {
        return (await core.send<Response>('GET', pathOf(file), { as: 'response' }, call)).blob()
      },
      /** As it arrives, for files that are larger than memory. */
      async stream(file: string, call?: CallOptions): Promise<ReadableStream<Uint8Array> | null> {
        return (await core.send<Response>('GET', pathOf(file), { as: 'response' }, call)).body
      },
      /** The address of a file in a public bucket. */
      url: (file: string): string => core.url + pathOf(file),
      /** An address that opens the file for a while: an hour, unless `expiresIn` says how many seconds. */
      async signedUrl(file: string, { expiresIn }: { expiresIn?: number } = {}, call?: CallOptions): Promise<string> {
        // It changes nothing, so it may be sent twice.
        const request = { body: { expiresIn }, repeat: 'read' } as const
        return core.url + (await core.send<{ url: string }>('POST', `${pathOf(file)}/sign`, request, call)).url
      },
      async list(query: { prefix?: string; limit?: number; offset?: number } = {}, call?: CallOptions) {
        return (await core.send<{ items: StoredFile[] }>('GET', path + queryText(query), {}, call)).items
      },
      remove: (file: string, call?: CallOptions) => core.send<void>('DELETE', pathOf(file), {}, call),
    }
  }
  return { bucket }
}
