import { useState } from 'react'
import { session } from '../../api/session.ts'
import { viewAs } from '../../api/view-as.ts'
import { Link } from '../../app/navigate.tsx'
import { prettyJson } from '../../parts/exact.ts'
import { bytes, duration } from '../../parts/format.ts'
import { Badge, Button, ErrorLine, Field, Snippet, Snippets } from '../../parts/ui.tsx'
import { type Call, type Document, exampleOf } from './openapi.ts'

type Answer = { status: number; text: string; ms: number }

const SHOWN = 60_000
const shell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** The token of the one who is viewed as, or of the administrator. Only for this origin, and never in a snippet. */
const tokenOf = (caller: string): string | undefined =>
  caller === 'nobody' ? undefined : (viewAs.get()?.token ?? session.get().token ?? undefined)

export function TryCall({ document, call }: { document: Document; call: Call }) {
  const { method, path, operation } = call
  const parameters = operation.parameters ?? []
  const [values, setValues] = useState<ReadonlyMap<string, string>>(new Map())
  const json = operation.requestBody?.content?.['application/json']
  const [body, setBody] = useState(() =>
    json ? JSON.stringify(json.example ?? exampleOf(document, json.schema), null, 2) : '',
  )
  const { token } = session.use()
  const as = viewAs.use()
  const [caller, setCaller] = useState('me')
  const [answer, setAnswer] = useState<Answer | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const filled = path.replace(/\{(\w+)(?:\.\.\.)?\}/g, (_, name: string) =>
    encodeURIComponent(values.get(name) ?? `{${name}}`),
  )
  // What policies refuse or hide can be explained.
  const table = decodeURIComponent(/^\/api\/collections\/([^/]+)/.exec(filled)?.[1] ?? '')
  const query = new URLSearchParams(
    parameters
      .filter((one) => one.in === 'query' && values.get(one.name))
      .map(({ name }) => [name, values.get(name) ?? '']),
  ).toString()
  const url = `${location.origin}${filled}${query && `?${query}`}`
  const curl = [
    `curl${method === 'GET' ? '' : ` -X ${method}`} ${shell(url)}`,
    ...(caller === 'nobody' ? [] : ['-H "Authorization: Bearer $TOKEN"']),
    ...(json ? [`-H 'Content-Type: application/json' -d ${shell(body.replace(/\s*\n\s*/g, ' '))}`] : []),
  ].join(' \\\n  ')
  const client = `await svc.request(${JSON.stringify(method)}, ${JSON.stringify(filled + (query && `?${query}`))}${json ? `, { body: ${body.replace(/\s*\n\s*/g, ' ')} }` : ''})`

  async function run(): Promise<void> {
    setBusy(true)
    setError(null)
    const began = performance.now()
    try {
      const bearer = tokenOf(caller)
      const response = await fetch(url, {
        method,
        headers: {
          ...(bearer && { authorization: `Bearer ${bearer}` }),
          ...(json && { 'content-type': 'application/json' }),
        },
        ...(json && { body }),
        signal: AbortSignal.timeout(30_000),
      })
      setAnswer({ status: response.status, text: await response.text(), ms: performance.now() - began })
    } catch (failure) {
      setError(failure)
    } finally {
      setBusy(false)
    }
  }
  return (
    <div className="form">
      {parameters
        .filter((one) => one.in === 'path' || one.in === 'query')
        .map((parameter) => (
          <Field
            key={`${parameter.in} ${parameter.name}`}
            label={`${parameter.name}${parameter.in === 'path' ? ' (in the path)' : ''}`}
            hint={parameter.description}
          >
            {(props) => (
              <input
                className="input mono"
                {...props}
                value={values.get(parameter.name) ?? ''}
                onChange={(event) => setValues(new Map(values).set(parameter.name, event.target.value))}
              />
            )}
          </Field>
        ))}
      {json && (
        <Field label="Body (JSON)">
          {(props) => (
            <textarea
              className="input mono"
              rows={Math.min(14, body.split('\n').length + 1)}
              spellCheck={false}
              {...props}
              value={body}
              onChange={(event) => setBody(event.target.value)}
            />
          )}
        </Field>
      )}
      <div className="row">
        <Field label="As">
          {(props) => (
            <select
              className="input"
              {...props}
              value={token ? caller : 'nobody'}
              onChange={(event) => setCaller(event.target.value)}
            >
              {token && <option value="me">{as ? as.label : 'administrator'}</option>}
              <option value="nobody">visitor</option>
            </select>
          )}
        </Field>
        <Button look="primary" icon="play" busy={busy} onClick={() => void run()}>
          Try it
        </Button>
      </div>
      <Snippets
        label="This call"
        forms={[
          ['curl', curl],
          ['client', client],
        ]}
      />
      <ErrorLine error={error} />
      {answer && (
        <section aria-label="Answer" className="panel" aria-live="polite">
          <p className="row">
            <Badge look={answer.status < 300 ? 'ok' : answer.status < 500 ? 'warn' : 'danger'}>{answer.status}</Badge>
            <span className="muted">
              {duration(answer.ms)}, {bytes(answer.text.length)}
            </span>
            {table && [403, 404].includes(answer.status) && (
              <Link to="/policies" search={{ tab: 'why', table, row: values.get('id') }}>
                Why?
              </Link>
            )}
          </p>
          <Snippet label="Answer" text={pretty(answer.text).slice(0, SHOWN)} wrap />
        </section>
      )}
    </div>
  )
}

function pretty(text: string): string {
  if (text.length > SHOWN) return text
  try {
    JSON.parse(text)
    return prettyJson(text)
  } catch {
    return text
  }
}
