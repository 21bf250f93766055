import { useRef } from 'react'
import { bytes as size, visible } from '../../../parts/format.ts'
import { toast } from '../../../parts/toast.tsx'
import { Button } from '../../../parts/ui.tsx'

const MOST = 5 * 1024 * 1024

const hexOf = (data: Uint8Array): string =>
  `\\x${Array.from(data, (byte) => byte.toString(16).padStart(2, '0')).join('')}`

const dataOf = (hex: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(hex.slice(2).match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))

/** As text, where they are one. */
function textIn(data: Uint8Array): string | null {
  if (data.length === 0 || data.length > 100_000) return null
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(data)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: with them it is no text
    return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? null : text
  } catch {
    return null
  }
}

/** Bytes come from a file and go to one; what they are as text is shown. */
export function Bytes({
  name,
  value,
  readOnly,
  onChange,
}: {
  name: string
  value: string
  readOnly: boolean
  onChange(value: string): void
}) {
  const field = useRef<HTMLInputElement>(null)
  const data = dataOf(value.trim())
  const text = textIn(data)
  function download(): void {
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob([data], { type: 'application/octet-stream' }))
    link.download = `${name}.bin`
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
  }
  async function choose(file: File | undefined): Promise<void> {
    if (!file) return
    if (file.size > MOST) return toast(`${file.name} is larger than ${size(MOST)}: better in a bucket`, { bad: true })
    onChange(hexOf(new Uint8Array(await file.arrayBuffer())))
  }
  return (
    <>
      <div className="row">
        <span className="muted grow">{size(data.length)}</span>
        <Button look="small" icon="download" disabled={data.length === 0} onClick={download}>
          Download
        </Button>
        {!readOnly && (
          <Button look="small" icon="upload" onClick={() => field.current?.click()}>
            From a file
          </Button>
        )}
        <input
          ref={field}
          type="file"
          hidden
          aria-label={`File for ${name}`}
          onChange={(event) => void choose(event.target.files?.[0])}
        />
      </div>
      {text !== null && (
        <div>
          <div className="muted">As text</div>
          <pre className="wrap isolate">{visible(text)}</pre>
        </div>
      )}
    </>
  )
}
