import type { SQLNamespace } from '@codemirror/lang-sql'
import { lazy, Suspense } from 'react'

export type EditorProps = {
  label: string
  value: string
  onChange(value: string): void
  /** Ctrl/⌘-Enter, with what is selected. */
  onRun?: (selection: string) => void
  schema?: SQLNamespace | undefined
  words?: readonly string[] | undefined
  language?: 'sql' | 'plain'
}

const CodeEditor = lazy(() => import('./code-editor.tsx'))

/** The editor comes when it is used; until then a plain field takes what is typed. */
export function Editor(props: EditorProps) {
  const plain = (
    <textarea
      className="input mono"
      aria-label={props.label}
      value={props.value}
      onChange={(event) => props.onChange(event.target.value)}
    />
  )
  return (
    <div className="editor">
      <Suspense fallback={plain}>
        <CodeEditor {...props} />
      </Suspense>
    </div>
  )
}
