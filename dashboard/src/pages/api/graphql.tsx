import { useState } from 'react'
import { useSchema } from '../../api/schema.ts'
import { useData } from '../../api/view-as.ts'
import { Editor } from '../../parts/editor/editor.tsx'
import { exactJson, parseExact, prettyJson } from '../../parts/exact.ts'
import { Button, ErrorLine, Field, Snippet } from '../../parts/ui.tsx'

const WORDS = [
  'query',
  'mutation',
  'where',
  'order_by',
  'limit',
  'offset',
  'first',
  'after',
  '_eq',
  '_neq',
  '_gt',
  '_gte',
  '_lt',
  '_lte',
  '_in',
  '_nin',
  '_like',
  '_ilike',
  '_is_null',
  '_and',
  '_or',
  '_not',
  'ASC',
  'DESC',
  'affected_rows',
  'returning',
  '_cursor',
  'insert_',
  'update_',
  'delete_',
  'objects',
  '_set',
  '_inc',
]

const isName = (name: string): boolean => /^[a-z][a-z0-9_]*$/i.test(name)

export function GraphQl() {
  const { schema } = useSchema()
  const { core } = useData()
  // One whose name GraphQL takes as it is.
  const first = [...(schema?.tables.values() ?? [])].find(({ name }) => isName(name))
  const [query, setQuery] = useState('')
  const [variables, setVariables] = useState('')
  const [answer, setAnswer] = useState('')
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const start = first
    ? `{\n  ${first.name}(limit: 10) {\n    ${first.columns
        .filter(({ name }) => isName(name))
        .slice(0, 4)
        .map(({ name }) => name)
        .join('\n    ')}\n  }\n}`
    : ''
  const text = query || start
  const words = [
    ...WORDS,
    ...[...(schema?.tables.values() ?? [])].flatMap(({ name, columns }) => [
      name,
      ...columns.map((column) => column.name),
    ]),
  ]
  async function run(): Promise<void> {
    setBusy(true)
    setError(null)
    try {
      const body = { query: text, ...(variables.trim() && { variables: parseExact(variables) }) }
      setAnswer(prettyJson(exactJson(await core.send('POST', '/api/graphql', { body }))))
    } catch (failure) {
      setError(failure)
    } finally {
      setBusy(false)
    }
  }
  return (
    <section className="card" id="graphql">
      <h2>GraphQL</h2>
      <div className="graphql-editor">
        <Editor
          label="GraphQL query"
          language="plain"
          words={words}
          value={text}
          onChange={setQuery}
          onRun={() => void run()}
        />
      </div>
      <Field label="Variables (JSON)">
        {(props) => (
          <textarea
            className="input mono"
            rows={2}
            {...props}
            value={variables}
            onChange={(event) => setVariables(event.target.value)}
          />
        )}
      </Field>
      <div>
        <Button look="primary" icon="play" busy={busy} onClick={() => void run()}>
          Run
        </Button>
      </div>
      <ErrorLine error={error} />
      {answer && <Snippet label="Answer of GraphQL" text={answer} />}
    </section>
  )
}
