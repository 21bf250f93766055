export type OnProgress = (sent: number, total: number) => void

/** A `fetch` that reports how much of the body has gone out. */
export const countingFetch =
  (onProgress: OnProgress) =>
  async (url: string, init: RequestInit): Promise<Response> => {
    const { XMLHttpRequest } = globalThis as unknown as { XMLHttpRequest?: new () => Xhr }
    // Browsers know no such thing as the progress of a fetch.
    if (XMLHttpRequest) return byXhr(new XMLHttpRequest(), url, init, onProgress)
    const whole = new Response(init.body)
    const type = whole.headers.get('content-type')
    const blob = await whole.blob()
    let sent = 0
    const counted = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, out) {
        sent += chunk.length
        onProgress(sent, blob.size)
        out.enqueue(chunk)
      },
    })
    const headers = { ...(type && { 'content-type': type }), ...(init.headers as Record<string, string>) }
    const body = blob.stream().pipeThrough(counted as never)
    return fetch(url, { ...init, headers, body, duplex: 'half' } as RequestInit)
  }

type Xhr = {
  open(method: string, url: string): void
  setRequestHeader(name: string, value: string): void
  getAllResponseHeaders(): string
  send(body: unknown): void
  abort(): void
  readonly upload: { onprogress: (event: { loaded: number; total: number }) => void }
  readonly status: number
  readonly responseText: string
  onload: () => void
  onerror: () => void
  onabort: () => void
}

const byXhr = (xhr: Xhr, url: string, { method, headers, body, signal }: RequestInit, onProgress: OnProgress) =>
  new Promise<Response>((resolve, reject) => {
    xhr.open(method ?? 'POST', url)
    for (const [name, value] of Object.entries(headers ?? {})) xhr.setRequestHeader(name, String(value))
    xhr.upload.onprogress = ({ loaded, total }) => onProgress(loaded, total)
    xhr.onload = () => {
      const { status, responseText } = xhr
      const lines = xhr.getAllResponseHeaders().trim().split('\r\n')
      const pairs = lines.map((line) => line.split(/: (.*)/).slice(0, 2) as [string, string])
      resolve(new Response(status === 204 ? null : responseText, { status, headers: pairs }))
    }
    xhr.onerror = () => reject(new TypeError('no answer'))
    xhr.onabort = () => reject(signal?.reason)
    signal?.addEventListener('abort', () => xhr.abort())
    xhr.send(body)
  })
