export type OnProgress = (sent: number, total: number) => void

/** A `fetch` that reports how much of the body has gone out. */
export const countingFetch =
  (onProgress: OnProgress) =>
  async (url: string, init: RequestInit): Promise<Response> => {
    // Browsers know no such thing as the progress of a fetch.
    if (typeof XMLHttpRequest === 'function') return byXmlHttpRequest(url, init, onProgress)
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
    return fetch(url, { ...init, headers, body: blob.stream().pipeThrough(counted), duplex: 'half' } as RequestInit)
  }

const byXmlHttpRequest = (url: string, { method, headers, body, signal }: RequestInit, onProgress: OnProgress) =>
  new Promise<Response>((resolve, reject) => {
    const xhr = new XMLHttpRequest()
    xhr.open(method ?? 'POST', url)
    for (const [name, value] of Object.entries(headers ?? {})) xhr.setRequestHeader(name, value)
    xhr.responseType = 'text'
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
    xhr.send(body as XMLHttpRequestBodyInit)
  })
