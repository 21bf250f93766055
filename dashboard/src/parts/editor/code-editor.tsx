import {
  autocompletion,
  type CompletionContext,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  completionKeymap,
} from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { PostgreSQL, type SQLNamespace, sql } from '@codemirror/lang-sql'
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { Compartment, EditorState, Prec } from '@codemirror/state'
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useEffect, useEffectEvent, useRef } from 'react'

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

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--accent)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'light-dark(#8a4b00, #f0b86b)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'light-dark(#1d5a99, #8dc2ff)' },
  { tag: tags.comment, color: 'var(--faint)', fontStyle: 'italic' },
  { tag: [tags.typeName, tags.standard(tags.name)], color: 'light-dark(#6b2fa0, #cfa6ff)' },
])

const look = EditorView.theme({
  '&': { height: '100%', fontSize: '13px', backgroundColor: 'transparent', color: 'var(--text)' },
  '.cm-content': { fontFamily: 'var(--mono)', caretColor: 'var(--text)', padding: '8px 0' },
  '.cm-scroller': { fontFamily: 'var(--mono)', overflow: 'auto' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--faint)', border: '0' },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--hover) 60%, transparent)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused': { outline: 'none' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--select) !important' },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)',
    border: '1px solid var(--line)',
    borderRadius: '8px',
    color: 'var(--text)',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent-soft)', color: 'var(--text)' },
})

const language = (props: EditorProps) => {
  if (props.language === 'plain') {
    const options = (props.words ?? []).map((label) => ({ label }))
    const complete = (context: CompletionContext) => {
      const word = context.matchBefore(/[\w]+/)
      return word ? { from: word.from, options } : null
    }
    return autocompletion({ override: [complete] })
  }
  return [
    sql({ dialect: PostgreSQL, ...(props.schema && { schema: props.schema }), defaultSchema: 'public' }),
    autocompletion(),
  ]
}

/**
 * Chromium replaces a selection in styled text by an element with a style attribute, which the page's policy forbids. So the
 * editor replaces it itself.
 */
const replacesSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to, empty } = view.state.selection.main
    if (empty || event.inputType !== 'insertText' || !event.data || view.composing) return false
    event.preventDefault()
    const text = event.data
    const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: 'input.type' })
    const isTaken = view.state.facet(EditorView.inputHandler).some((handler) => handler(view, from, to, text, insert))
    if (!isTaken) view.dispatch(insert())
    return true
  },
})

/**
 * CodeMirror writes its styles at run time, which the page's policy forbids in the document. In a shadow root it uses
 * constructed style sheets, which are allowed.
 */
export default function CodeEditor(props: EditorProps) {
  const host = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(null)
  const { value, label, schema } = props
  const typed = useEffectEvent((text: string) => props.onChange(text))
  const run = useEffectEvent((selection: string) => props.onRun?.(selection))
  const start = useEffectEvent((element: HTMLElement) => {
    const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' })
    const compartment = new Compartment()
    const execute = (editor: EditorView): boolean => {
      closeCompletion(editor)
      const { from, to } = editor.state.selection.main
      run(editor.state.sliceDoc(from, to))
      return true
    }
    const state = EditorState.create({
      doc: value,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        syntaxHighlighting(colours),
        compartment.of(language(props)),
        Prec.highest(keymap.of([{ key: 'Mod-Enter', run: execute }])),
        // Tab leaves the editor, as it leaves any field (WCAG 2.1.2).
        keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
        EditorView.lineWrapping,
        replacesSelection,
        EditorView.contentAttributes.of({ 'aria-label': label }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) typed(update.state.doc.toString())
        }),
        look,
      ],
    })
    const editor = new EditorView({ state, parent: root, root })
    return { editor, compartment }
  })
  const reconfigure = useRef<Compartment>(null)
  useEffect(() => {
    if (!host.current) return
    const { editor, compartment } = start(host.current)
    view.current = editor
    reconfigure.current = compartment
    return () => editor.destroy()
  }, [])
  useEffect(() => {
    const editor = view.current
    if (!editor || editor.state.doc.toString() === value) return
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } })
  }, [value])
  const configure = useEffectEvent(() => {
    const { current } = reconfigure
    if (current) view.current?.dispatch({ effects: current.reconfigure(language(props)) })
  })
  useEffect(() => configure(), [schema, props.words])
  return <div ref={host} data-editor={label} />
}
