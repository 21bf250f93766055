import { lazy, Suspense } from 'react'
import type { EditorProps } from './code-editor.tsx'

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
