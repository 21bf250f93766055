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
  /** Of public buckets only. */
  url?: string
  metadata?: Record<string, unknown>
}

/** An image in another size or format; pixels of the page, which `dpr` multiplies. */
export type ImageTransform = {
  width?: number
  height?: number
  fit?: 'cover' | 'contain' | 'inside'
  /** `auto`: what the browser takes. */
  format?: 'avif' | 'webp' | 'jpeg' | 'png' | 'auto'
  quality?: number
  dpr?: number
  gravity?: string
}

type ListQuery = { prefix?: string; after?: string; limit?: number; offset?: number }

type Content = Blob | ArrayBuffer | ArrayBufferView<ArrayBuffer> | string
type UploadOptions = CallOptions & {
  contentType?: string
  metadata?: Readonly<Record<string, unknown>>
  onProgress?: OnProgress
}

export type Storage = ReturnType<typeof createStorage>

/** Files in buckets. */
export function createStorage(core: Core) {
  core.counting = countingFetch
  function bucket(name: string) {
    const path = `/api/storage/${segment(name)}`
    const pathOf = (file: string): string => `${path}/${file.split('/').map(segment).join('/')}`
    return {
      async upload(file: string, content: Content, { contentType, metadata, onProgress, ...call }: UploadOptions = {}) {
        const body = new FormData()
        const blob =
          content instanceof Blob && !contentType ? content : new Blob([content], { type: contentType ?? '' })
        body.append('name', file)
        if (metadata) body.append('metadata', JSON.stringify(metadata))
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
      /** The address of a file in a public bucket, or of an image in another size. */
      url: (file: string, image?: ImageTransform): string => core.url + pathOf(file) + queryText(image),
      /**
       * An address that opens the file for a while: an hour, unless `expiresIn` says how many seconds. `transform`: as an image
       * of this size, or `true`: of any size that is added to the address.
       */
      async signedUrl(
        file: string,
        { expiresIn, transform }: { expiresIn?: number; transform?: true | ImageTransform } = {},
        call?: CallOptions,
      ): Promise<string> {
        // It changes nothing, so it may be sent twice.
        const request = { body: { expiresIn, transform }, repeat: 'read' } as const
        return core.url + (await core.send<{ url: string }>('POST', `${pathOf(file)}/sign`, request, call)).url
      },
      async list(query: ListQuery = {}, call?: CallOptions) {
        return (await core.send<{ items: StoredFile[] }>('GET', path + queryText(query), {}, call)).items
      },
      /** What is directly behind the prefix: files, and folders to list next. */
      folder: (query: ListQuery = {}, call?: CallOptions) =>
        core.send<{ items: StoredFile[]; folders: string[]; totalItems: number }>(
          ...(['GET', path + queryText({ ...query, delimiter: '/' }), {}, call] as const),
        ),
      /** All files behind the prefix, as they arrive. */
      async zip(prefix = '', call?: CallOptions): Promise<ReadableStream<Uint8Array> | null> {
        const query = queryText({ prefix, format: 'zip' })
        return (await core.send<Response>('GET', path + query, { as: 'response' }, call)).body
      },
      /** Under another name of the bucket; never onto one that is there. */
      move: (file: string, to: string, call?: CallOptions) =>
        core.send<StoredFile>('POST', `${pathOf(file)}/move`, { body: { to } }, call),
      copy: (file: string, to: string, call?: CallOptions) =>
        core.send<StoredFile>('POST', `${pathOf(file)}/copy`, { body: { to } }, call),
      /** For `tus-js-client` and Uppy: uploads that go on after a cut connection. */
      resumable: `${core.url}/api/storage/tus/${segment(name)}`,
      remove: (file: string, call?: CallOptions) => core.send<void>('DELETE', pathOf(file), {}, call),
    }
  }
  return { bucket }
}
