import { useEffect, useRef, useState } from 'react'
import reference from '../../../../docs/errors.md'

const codeInAddress = (): string | undefined => reference.find(({ error }) => `#${error}` === location.hash)?.error

/** What each code of a failure means; `doc_url` leads to its line. */
export function Errors({ isSettled }: { isSettled: boolean }) {
  const [chosen, setChosen] = useState(codeInAddress)
  const line = useRef<HTMLTableRowElement>(null)
  useEffect(() => {
    const look = (): void => setChosen(codeInAddress())
    addEventListener('hashchange', look)
    return () => removeEventListener('hashchange', look)
  }, [])
  useEffect(() => {
    line.current?.focus({ preventScroll: true })
    line.current?.scrollIntoView({ block: 'center' })
    // Again when what stands above it has come.
  }, [chosen, isSettled])
  const groups = [...Map.groupBy(reference, ({ group }) => group)]
  return (
    <section className="card" id="errors" aria-labelledby="errors-title">
      <h2 id="errors-title">Errors</h2>
      <p className="muted">
        A failure is <code>{'{code, error, message, data?, doc_url}'}</code>. Programs compare <code>error</code>; its{' '}
        <code>doc_url</code> leads to a line of this list.
      </p>
      {groups.map(([group, codes]) => (
        <details key={group} open={codes.some(({ error }) => error === chosen)}>
          <summary>
            {group} <span className="muted">{codes.length}</span>
          </summary>
          <div className="table-wrap">
            <table className="table" aria-label={group}>
              <thead>
                <tr>
                  <th>Error</th>
                  <th>Status</th>
                  <th>When</th>
                </tr>
              </thead>
              <tbody>
                {codes.map(({ error, status, when }) => (
                  <tr
                    key={error}
                    id={error}
                    {...(error === chosen && { ref: line, tabIndex: -1, className: 'chosen', 'aria-current': true })}
                  >
                    <td>
                      <a href={`#${error}`} className="mono">
                        {error}
                      </a>
                    </td>
                    <td>{status}</td>
                    <td>{withCode(when || error.replaceAll('_', ' '))}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      ))}
    </section>
  )
}

/** What stands between backticks is code. */
const withCode = (text: string) =>
  text.split('`').map((part, index) => (index % 2 === 1 ? <code key={part + String(index)}>{part}</code> : part))
