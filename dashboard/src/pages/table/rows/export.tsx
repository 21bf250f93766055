import { send } from '../../../api/client.ts'
import { useData } from '../../../api/view-as.ts'
import { MenuButton } from '../../../parts/menu.tsx'
import { failed } from '../../../parts/toast.tsx'
import { copyText } from '../../../parts/ui.tsx'

export function download(blob: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

type ExportProps = { name: string; filter: string; sort: string; fields: readonly string[] }

/** The current view as a file, or as a call. */
export function ExportMenu({ name, filter, sort, fields }: ExportProps) {
  const { core } = useData()
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
          run: () =>
            void copyText(`await svc.from(${JSON.stringify(name)}).list(${JSON.stringify({ ...(sort && { sort }) })})`),
        },
        { label: 'Copy the link to this view', icon: 'link', run: () => void copyText(location.href) },
      ]}
    >
      Export
    </MenuButton>
  )
}
