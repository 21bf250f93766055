import { useState } from 'react'
import { useApi } from '../../api/hooks.ts'
import { type Table, useSchema } from '../../api/schema.ts'
import { Field, Snippets } from '../../parts/ui.tsx'
import { callsOf, isSortable, type Row } from './calls.ts'
import { graphqlField } from './graphql.ts'

export function ApiTab({ name, table }: { name: string; table: Table }) {
  const { schema } = useSchema()
  const [key, ...further] = table.primaryKey
  // The last one: what comes after its key is free.
  const sort = key !== undefined && further.length === 0 && isSortable(key) ? `-${key}` : undefined
  const { data } = useApi<{ items: Row[] }>(
    `/api/collections/${encodeURIComponent(name)}`,
    { perPage: 1, total: 'none', cut: 60, sort },
    { exact: true },
  )
  const [find, setFind] = useState('')
  const calls = callsOf({
    name,
    table,
    row: data?.items[0],
    field: schema ? graphqlField(schema, table) : null,
    origin: location.origin,
  }).filter(([title]) => title.toLowerCase().includes(find.toLowerCase()))
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
