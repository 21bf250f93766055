import { send } from '../../../api/client.ts'
import { type Table, useSchema } from '../../../api/schema.ts'
import { useData } from '../../../api/view-as.ts'
import { MenuButton } from '../../../parts/menu.tsx'
import { failed } from '../../../parts/toast.tsx'
import { copyText } from '../../../parts/ui.tsx'
import { graphqlField } from '../graphql.ts'
import { clientOf, graphqlOf, sqlOf, type Viewed } from './view-calls.ts'

export function download(blob: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

/** Only where the form can say it. */
const copies = (forms: readonly (readonly [label: string, text: string | null])[]) =>
  forms.flatMap(([label, text]) =>
    text === null ? [] : [{ label, icon: 'copy' as const, run: () => void copyText(text) }],
  )

type ExportProps = { name: string; table: Table } & Viewed

/** The current view as a file, or as a call. */
export function ExportMenu({ name, table, ...viewed }: ExportProps) {
  const { filter, sort, fields } = viewed
  const { core } = useData()
  const { schema } = useSchema()
  const query = { filter: filter || undefined, sort: sort || undefined, fields: fields.join() }
  const path = `/api/collections/${encodeURIComponent(name)}`
  const run = async (format: string): Promise<void> => {
    try {
      const answer = await send<Response>(
        'GET',
        `${path}/export.${format}`,
        { query, as: 'response' },
        { timeout: 600_000 },
        core,
      )
      download(await answer.blob(), `${name}.${format}`)
    } catch (error) {
      failed(error)
    }
  }
  const asked = new URLSearchParams(Object.entries({ filter, sort }).filter(([, value]) => value)).toString()
  const url = `${location.origin}${path}${asked && `?${asked}`}`
  return (
    <MenuButton
      label="Export"
      icon="download"
      items={[
        { label: 'CSV', icon: 'download', run: () => void run('csv') },
        { label: 'JSON', icon: 'download', run: () => void run('json') },
        { label: 'NDJSON', icon: 'download', run: () => void run('ndjson') },
        '-',
        {
          label: 'Copy as curl',
          icon: 'copy',
          run: () => void copyText(`curl '${url.replaceAll("'", '%27')}' -H "Authorization: Bearer $TOKEN"`),
        },
        {
          label: 'Copy for the client',
          icon: 'copy',
          run: () => void copyText(clientOf(name, viewed)),
        },
        ...copies([
          ['Copy as SQL', sqlOf(table, viewed)],
          ['Copy as GraphQL', graphqlOf(schema ? graphqlField(schema, table) : null, table, viewed)],
        ]),
        { label: 'Copy the link to this view', icon: 'link', run: () => void copyText(location.href) },
      ]}
    >
      Export
    </MenuButton>
  )
}
