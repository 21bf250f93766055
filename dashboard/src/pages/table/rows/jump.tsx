import { type FormEvent, useState } from 'react'
import { quoteName, type Table } from '../../../api/schema.ts'
import { Button } from '../../../parts/ui.tsx'
import { kindOf } from './values.ts'

/** To a value of the column that orders the rows: everything from there on. */
export function JumpTo({
  table,
  sort,
  jump,
  onJump,
}: {
  table: Table
  sort: string
  jump: string
  onJump(condition: string): void
}) {
  const [typed, setTyped] = useState('')
  const name = sort.replace(/^-/, '')
  const column = table.columns.find((one) => one.name === name)
  if (!column) return null
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    const isBare = kindOf(column) === 'number' && /^-?\d+(\.\d+)?$/.test(typed)
    const literal = isBare ? typed : `'${typed.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
    onJump(typed === '' ? '' : `${quoteName(name)} ${sort.startsWith('-') ? '<=' : '>='} ${literal}`)
  }
  return (
    <form className="row" onSubmit={submit}>
      <input
        className="input"
        style={{ width: 150 }}
        aria-label={`Jump to a value of ${name}`}
        placeholder={`Jump to ${name}`}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
      {jump && (
        <Button
          look="quiet small"
          icon="x"
          aria-label="Back to the beginning"
          title={`From ${jump}`}
          onClick={() => {
            setTyped('')
            onJump('')
          }}
        />
      )}
    </form>
  )
}
