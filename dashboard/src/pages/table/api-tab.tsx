import { useState } from 'react'
import { useApi } from '../../api/hooks.ts'
import { fullName, type Table } from '../../api/schema.ts'
import { exactJson } from '../../parts/exact.ts'
import { text } from '../../parts/format.ts'
import { Field, Snippets } from '../../parts/ui.tsx'

type Row = Record<string, unknown>
type Form = readonly [name: string, text: string]

const shell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

const SAMPLES: [RegExp, unknown][] = [
  [/^(smallint|integer|bigint|numeric|real|double)/, 1],
  [/^bool/, true],
  [/^timestamp/, '2026-01-02T03:04:05Z'],
  [/^date/, '2026-01-02'],
  [/^uuid/, '00000000-0000-0000-0000-000000000001'],
  [/\[\]$/, []],
  [/^json/, {}],
]

/** Something that the column would take. */
const sample = (type: string): unknown => SAMPLES.find(([pattern]) => pattern.test(type))?.[1] ?? 'text'

/** A table's calls, with its own columns and a row of it. Tokens are named, never shown. */
function callsOf(name: string, table: Table, row: Row | undefined): [title: string, forms: Form[]][] {
  const cut = row?.['_cut']
  const isCut = (column: string): boolean => Array.isArray(cut) && cut.includes(column)
  const base = `${location.origin}/api/collections/${encodeURIComponent(name)}`
  const auth = `-H "Authorization: Bearer $TOKEN"`
  const key = table.primaryKey.map((column) => row?.[column] ?? 1)
  const id = key.map((part) => encodeURIComponent(text(part))).join()
  const clientKey = exactJson(key.length === 1 ? key[0] : key)
  const writable = table.columns.filter((column) => !column.default && !column.isPrimaryKey)
  const body = Object.fromEntries(
    (writable.length > 0 ? writable : table.columns)
      .slice(0, 4)
      .map((column) => [
        column.name,
        isCut(column.name) ? sample(column.type) : (row?.[column.name] ?? sample(column.type)),
      ]),
  )
  const change = Object.fromEntries(Object.entries(body).slice(0, 1))
  const [first] = table.columns
  const fields = table.columns.slice(0, 5).map((column) => column.name)
  const graphqlName = name.replaceAll('.', '_')
  const from = `svc.from(${exactJson(name)})`
  const curl = (method: string, url: string, data?: unknown): string =>
    [
      `curl${method === 'GET' ? '' : ` -X ${method}`} ${shell(url)} ${auth}`,
      ...(data === undefined ? [] : [`-H 'Content-Type: application/json' -d ${shell(exactJson(data))}`]),
    ].join(' \\\n  ')
  const reads: [string, Form[]][] = [
    [
      'List rows',
      [
        [
          'curl',
          curl('GET', `${base}?perPage=20&sort=-${encodeURIComponent(table.primaryKey[0] ?? first?.name ?? '')}`),
        ],
        ['client', `const { items } = await ${from}.list({ perPage: 20 })`],
        ['GraphQL', `{ ${graphqlName}(limit: 20) { ${fields.join(' ')} } }`],
        ['SQL', `select * from ${fullName(table)} limit 20;`],
      ],
    ],
  ]
  if (table.primaryKey.length === 0) return reads
  return [
    ...reads,
    [
      'Read a row',
      [
        ['curl', curl('GET', `${base}/${id}`)],
        ['client', `const row = await ${from}.get(${clientKey})`],
      ],
    ],
    [
      'Create a row',
      [
        ['curl', curl('POST', base, body)],
        ['client', `const row = await ${from}.create(${exactJson(body)})`],
        [
          'GraphQL',
          `mutation { insert_${graphqlName}(objects: [${exactJson(body).replace(/"(\w+)":/g, '$1: ')}]) { affected_rows } }`,
        ],
      ],
    ],
    [
      'Change a row',
      [
        ['curl', curl('PATCH', `${base}/${id}`, change)],
        ['client', `await ${from}.update(${clientKey}, ${exactJson(change)})`],
      ],
    ],
    [
      'Delete a row',
      [
        ['curl', curl('DELETE', `${base}/${id}`)],
        ['client', `await ${from}.delete(${clientKey})`],
      ],
    ],
    [
      'Hear of changes',
      [
        ['curl', `curl -N ${shell(`${location.origin}/api/realtime?tables=${encodeURIComponent(name)}`)} ${auth}`],
        ['client', `const end = ${from}.watch({ onChange: ({ action, record }) => console.log(action, record) })`],
      ],
    ],
  ]
}

export function ApiTab({ name, table }: { name: string; table: Table }) {
  const { data } = useApi<{ items: Row[] }>(
    `/api/collections/${encodeURIComponent(name)}`,
    {
      perPage: 1,
      total: 'none',
      cut: 60,
    },
    { exact: true },
  )
  const [find, setFind] = useState('')
  const calls = callsOf(name, table, data?.items[0]).filter(([title]) =>
    title.toLowerCase().includes(find.toLowerCase()),
  )
  return (
    <>
      <Field label="Find a call">
        {(props) => (
          <input className="input" {...props} value={find} onChange={(event) => setFind(event.target.value)} />
        )}
      </Field>
      {calls.map(([title, forms]) => (
        <section className="card" key={title}>
          <h2>{title}</h2>
          <Snippets label={title} forms={forms} />
        </section>
      ))}
    </>
  )
}
