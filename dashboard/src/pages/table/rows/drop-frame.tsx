import { type ReactNode, useState } from 'react'

/** Takes a file that is dropped on it. */
export function DropFrame({ onFile, children }: { onFile: ((file: File) => void) | undefined; children: ReactNode }) {
  const [isDropping, setDropping] = useState(false)
  return (
    <div
      className={`grid-frame ${isDropping ? 'drop' : ''}`}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes('Files') || !onFile) return
        event.preventDefault()
        setDropping(true)
      }}
      onDragLeave={() => setDropping(false)}
      onDrop={(event) => {
        const [dropped] = event.dataTransfer.files
        setDropping(false)
        if (!dropped || !onFile) return
        event.preventDefault()
        onFile(dropped)
      }}
    >
      {children}
    </div>
  )
}
