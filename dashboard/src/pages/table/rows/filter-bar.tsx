import { useEffect, useId, useState } from 'react'
import { quoteName, type Table } from '../../../api/schema.ts'
import { Dialog } from '../../../parts/dialog.tsx'
import { Button } from '../../../parts/ui.tsx'
import { kindOf } from './values.ts'

const OPERATORS = ['=', '!=', '>', '>=', '<', '<=', '~', '!~', 'IN ('] as const

const literal = (table: Table, column: string, value: string): string => {
  const found = table.columns.find(({ name }) => name === column)
  const kind = found ? kindOf(found) : 'text'
  if (value === 'null') return 'null'
  if ((kind === 'number' && /^-?\d+(\.\d+)?$/.test(value)) || (kind === 'boolean' && /^(true|false)$/.test(value)))
    return value
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}

/** What may stand at the end of what was typed. */
function suggestions(table: Table, typed: string): { text: string; show: string }[] {
  const inText = (typed.match(/(?<!\\)'/g)?.length ?? 0) % 2 === 1
  if (inText) return []
  const word = /[\w."]*$/.exec(typed)?.[0] ?? ''
  const before = typed.slice(0, typed.length - word.length)
  const last = /(\S+)\s*$/.exec(before)?.[1] ?? ''
  const names = [
    ...table.columns.map(({ name }) => quoteName(name)),
    ...(table.relationships ?? []).map(({ fieldName }) => `${quoteName(fieldName)}.`),
  ]
  const isName = names.includes(last) || last.includes('.')
  const isOperator = OPERATORS.some((operator) => operator.startsWith(last) && last !== '')
  const fits = (list: readonly string[], end = ' '): { text: string; show: string }[] =>
    list
      .filter((item) => item.toLowerCase().startsWith(word.toLowerCase()) && item !== word)
      .map((item) => ({ text: before + item + (item.endsWith('.') ? '' : end), show: item }))
  if (isName && !isOperator) return fits(OPERATORS)
  if (last === '' || /^(and|or|&&|\|\||\()$/i.test(last)) return fits(names)
  if (isOperator) return fits(['null', 'true', 'false', "'"], '')
  return fits(['AND', 'OR'])
}

type FilterBarProps = { table: Table; filter: string; onFilter(filter: string): void; error: string }

export function FilterBar({ table, filter, onFilter, error }: FilterBarProps) {
  const id = useId()
  const [typed, setTyped] = useState(filter)
  const [isOpen, open] = useState(false)
  const [index, setIndex] = useState(-1)
  const [isBuilding, build] = useState(false)
  useEffect(() => setTyped(filter), [filter])
  const list = isOpen ? suggestions(table, typed).slice(0, 12) : []
  const take = (text: string): void => {
    setTyped(text)
    setIndex(-1)
  }
  return (
    <>
      <div className="filter-box combo">
        <input
          className="input mono"
          role="combobox"
          aria-label="Filter"
          aria-expanded={list.length > 0}
          aria-controls={`${id}-list`}
          aria-activedescendant={index >= 0 ? `${id}-${index}` : undefined}
          aria-invalid={error !== ''}
          placeholder="Filter, such as views > 5 AND title ~ 'A%'"
          spellCheck={false}
          autoComplete="off"
          value={typed}
          onFocus={() => open(true)}
          onBlur={() => open(false)}
          onChange={(event) => {
            take(event.target.value)
            open(true)
          }}
          onKeyDown={(event) => {
            const chosen = list[index]
            if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
              event.preventDefault()
              setIndex((index + (event.key === 'ArrowDown' ? 1 : -1) + list.length + 1) % (list.length + 1))
            } else if ((event.key === 'Enter' || event.key === 'Tab') && chosen) {
              event.preventDefault()
              take(chosen.text)
            } else if (event.key === 'Enter') {
              open(false)
              onFilter(typed.trim())
            } else if (event.key === 'Escape') open(false)
          }}
        />
        {list.length > 0 && (
          <div className="menu" role="listbox" id={`${id}-list`} aria-label="Completions" tabIndex={-1}>
            {list.map(({ text, show }, at) => (
              <div
                key={show}
                id={`${id}-${at}`}
                role="option"
                tabIndex={-1}
                aria-selected={at === index}
                onMouseDown={(event) => {
                  event.preventDefault()
                  take(text)
                }}
              >
                <code>{show}</code>
              </div>
            ))}
          </div>
        )}
      </div>
      <Button icon="filter" onClick={() => build(true)}>
        Build
      </Button>
      {(filter || typed) && (
        <Button
          look="quiet"
          icon="x"
          aria-label="Clear the filter"
          title="Clear the filter"
          onClick={() => {
            setTyped('')
            onFilter('')
          }}
        />
      )}
      {isBuilding && (
        <Builder
          table={table}
          onClose={() => build(false)}
          onBuilt={(text) => {
            setTyped(text)
            onFilter(text)
          }}
        />
      )}
    </>
  )
}

type Condition = { id: number; column: string; operator: string; value: string }

function Builder({ table, onClose, onBuilt }: { table: Table; onClose(): void; onBuilt(filter: string): void }) {
  const first = table.columns[0]?.name ?? ''
  const [conditions, setConditions] = useState<Condition[]>([{ id: 0, column: first, operator: '=', value: '' }])
  const [joined, setJoined] = useState('AND')
  const change = (id: number, part: Partial<Condition>): void =>
    setConditions(conditions.map((condition) => (condition.id === id ? { ...condition, ...part } : condition)))
  const filter = conditions
    .map(({ column, operator, value }) => `${quoteName(column)} ${operator} ${literal(table, column, value)}`)
    .join(` ${joined} `)
  return (
    <Dialog
      title="Build a filter"
      look="wide"
      onClose={onClose}
      onSubmit={() => {
        onBuilt(filter)
        onClose()
      }}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary">
            Apply
          </Button>
        </>
      }
    >
      {conditions.map(({ id, column, operator, value }, index) => (
        <div className="row" key={id}>
          <select
            className="input grow"
            aria-label={`Column ${index + 1}`}
            value={column}
            onChange={(event) => change(id, { column: event.target.value })}
          >
            {table.columns.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
          <select
            className="input"
            style={{ width: 110 }}
            aria-label={`Comparison ${index + 1}`}
            value={operator}
            onChange={(event) => change(id, { operator: event.target.value })}
          >
            {OPERATORS.filter((name) => name !== 'IN (').map((name) => (
              <option key={name} value={name}>
                {{ '~': '~ like', '!~': '!~ not like' }[name as string] ?? name}
              </option>
            ))}
          </select>
          <input
            className="input grow"
            aria-label={`Value ${index + 1}`}
            placeholder="value, or null"
            value={value}
            onChange={(event) => change(id, { value: event.target.value })}
          />
          <Button
            look="quiet small"
            icon="trash"
            aria-label={`Remove condition ${index + 1}`}
            onClick={() => setConditions(conditions.filter((other) => other.id !== id))}
          />
        </div>
      ))}
      <div className="row">
        <Button
          look="small"
          icon="plus"
          onClick={() => setConditions([...conditions, { id: Date.now(), column: first, operator: '=', value: '' }])}
        >
          Condition
        </Button>
        <select
          className="input"
          style={{ width: 120 }}
          aria-label="Joined by"
          value={joined}
          onChange={(event) => setJoined(event.target.value)}
        >
          <option value="AND">all hold</option>
          <option value="OR">one holds</option>
        </select>
      </div>
      <pre className="muted">{filter}</pre>
    </Dialog>
  )
}
