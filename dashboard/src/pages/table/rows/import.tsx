import { useEffect, useState } from 'react'
import { ApiError, newRequestId, post, send, sentence } from '../../../api/client.ts'
import type { Column, Table } from '../../../api/schema.ts'
import { useData } from '../../../api/view-as.ts'
import { Dialog } from '../../../parts/dialog.tsx'
import { plural } from '../../../parts/format.ts'
import { toast } from '../../../parts/toast.tsx'
import { Button, ErrorLine, Field, Note } from '../../../parts/ui.tsx'
import { parseCsv, toCsv } from './csv.ts'

type Imported = { created: number; updated: number; skipped: number; dry_run: boolean }
type BadLine = { line: number; message: string }

const simple = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]/g, '')

/** An import keeps the values of identity columns; what PostgreSQL computes it does not take. */
const targetsOf = ({ columns }: Table): Column[] =>
  columns.filter(({ isGenerated, isIdentity }) => !isGenerated || isIdentity)

/** A CSV: which of its columns go where, a dry run with the lines that fail, and then all rows or none. */
export function ImportDialog({
  name,
  table,
  file,
  onClose,
  onDone,
}: {
  name: string
  table: Table
  file: File
  onClose(): void
  onDone(): void
}) {
  const { core } = useData()
  const [rows, setRows] = useState<(string | null)[][] | null>(null)
  const [mapping, setMapping] = useState<string[]>([])
  const [conflict, setConflict] = useState('')
  const [error, setError] = useState<unknown>(null)
  const [bad, setBad] = useState<BadLine[]>([])
  const [tried, setTried] = useState<Imported | null>(null)
  const [busy, setBusy] = useState(false)
  useEffect(() => {
    file
      .text()
      .then((text) => {
        const parsed = parseCsv(text)
        setRows(parsed)
        const find = (head: string | null): string =>
          targetsOf(table).find(({ name }) => simple(name) === simple(head ?? ''))?.name ?? ''
        setMapping((parsed[0] ?? []).map(find))
      })
      .catch(setError)
  }, [file, table])
  const [head = [], ...lines] = rows ?? []
  const kept = mapping.flatMap((target, index) => (target ? [index] : []))
  const unique = [
    table.primaryKey,
    ...(table.indexes ?? []).filter(({ isUnique }) => isUnique).map(({ columns }) => columns),
  ].filter((columns) => columns.length > 0)

  async function run(dryRun: boolean): Promise<void> {
    setBusy(true)
    setError(null)
    setBad([])
    const body = toCsv([
      kept.map((index) => mapping[index] ?? ''),
      ...lines.map((line) => kept.map((index) => line[index] ?? null)),
    ])
    const requestId = newRequestId()
    try {
      const query = { dry_run: dryRun || undefined, onConflict: conflict || undefined }
      const path = `/api/collections/${encodeURIComponent(name)}/import`
      const answer = await send<Imported>(
        'POST',
        path,
        { body, type: 'text/csv', query },
        { timeout: 300_000, headers: { 'x-request-id': requestId } },
        core,
      )
      setTried(answer)
      if (dryRun) return
      onDone()
      onClose()
      const undo = (): void => {
        post('/api/admin/undo', { request_id: requestId }).then(
          () => {
            toast('Undone')
            onDone()
          },
          (failure) => toast(`Not undone: ${sentence(failure)}`, { bad: true }),
        )
      }
      toast(`${plural(answer.created, 'row')} imported, ${answer.updated} updated`, {
        action: { label: 'Undo', run: undo },
      })
    } catch (failure) {
      setTried(null)
      const found = failure instanceof ApiError ? failure.data?.['rows'] : undefined
      if (Array.isArray(found)) setBad(found as BadLine[])
      setError(failure)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      title={`Import ${file.name}`}
      look="wide"
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button busy={busy} disabled={kept.length === 0} onClick={() => void run(true)}>
            Dry run
          </Button>
          <Button
            look="primary"
            busy={busy}
            disabled={kept.length === 0 || lines.length === 0}
            onClick={() => void run(false)}
          >
            {`Import ${plural(lines.length, 'row')}`}
          </Button>
        </>
      }
    >
      {rows && (
        <div className="table-wrap">
          <table className="table mapping">
            <thead>
              <tr>
                <th>Column of the file</th>
                <th>Goes to</th>
              </tr>
            </thead>
            <tbody>
              {head.map((title, index) => (
                <tr key={index}>
                  <td>
                    <div>{title}</div>
                    <div className="muted">
                      {lines
                        .slice(0, 3)
                        .map((line) => line[index] ?? 'NULL')
                        .join(' · ')
                        .slice(0, 80)}
                    </div>
                  </td>
                  <td>
                    <select
                      className="input"
                      aria-label={`Column for ${title}`}
                      value={mapping[index] ?? ''}
                      onChange={(event) =>
                        setMapping(mapping.map((old, at) => (at === index ? event.target.value : old)))
                      }
                    >
                      <option value="">leave out</option>
                      {targetsOf(table).map(({ name, type }) => (
                        <option key={name} value={name}>
                          {name} ({type})
                        </option>
                      ))}
                    </select>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Field label="Rows that are there already">
        {(props) => (
          <select className="input" {...props} value={conflict} onChange={(event) => setConflict(event.target.value)}>
            <option value="">refuse the import</option>
            {unique.map((columns) => (
              <option
                key={columns.join()}
                value={columns.join()}
              >{`update those with the same ${columns.join(', ')}`}</option>
            ))}
          </select>
        )}
      </Field>
      {tried?.dry_run && (
        <Note>{`It would work: ${plural(tried.created, 'row')} made, ${tried.updated} updated.`}</Note>
      )}
      <ErrorLine error={error} />
      {bad.length > 0 && (
        <ul>
          {bad.map(({ line, message }) => (
            <li key={line}>
              <strong>{`Line ${line}`}</strong> {message}
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  )
}
