import { useState } from 'react'
import { post, remove } from '../../../api/client.ts'
import { changed, useAction, useApi } from '../../../api/hooks.ts'
import type { Search } from '../../../app/navigate.tsx'
import { confirm, FormDialog } from '../../../parts/dialog.tsx'
import { MenuButton } from '../../../parts/menu.tsx'
import { toast } from '../../../parts/toast.tsx'
import type { Layout } from './layout.ts'

type View = { id: string; name: string; table: string; state: { search?: Search; layout?: Partial<Layout> } }

const PATH = '/api/admin/dashboard/views'

type ViewsProps = {
  table: string
  search: Search
  layout: Layout
  onOpen(search: Search, layout: Partial<Layout>): void
}

/** Filter, order and columns under a name, for all administrators. */
export function Views({ table, search, layout, onOpen }: ViewsProps) {
  const { data } = useApi<{ items: View[] }>(PATH, {}, { fresh: 30_000 })
  const [isSaving, setSaving] = useState(false)
  const drop = useAction((id: string) => remove(`${PATH}/${encodeURIComponent(id)}`), {
    done: 'The view is gone',
    changes: [PATH],
  })
  const own = data?.items.filter((view) => view.table === table) ?? []
  return (
    <>
      <MenuButton
        label="Views"
        icon="star"
        items={[
          ...own.map(({ name, state }) => ({
            label: name,
            icon: 'table' as const,
            run: () => onOpen(state.search ?? {}, state.layout ?? {}),
          })),
          ...(own.length > 0 ? (['-'] as const) : []),
          { label: 'Save this view', icon: 'plus', run: () => setSaving(true) },
          ...own.map(({ id, name }) => ({
            label: `Delete “${name}”`,
            icon: 'trash' as const,
            danger: true,
            run: async () => {
              if (
                await confirm({
                  title: `Delete the view “${name}”?`,
                  text: 'It goes for all administrators.',
                  yes: 'Delete',
                })
              )
                drop.run(id)
            },
          })),
        ]}
      />
      {isSaving && (
        <FormDialog
          title="Save this view"
          yes="Save"
          fields={[{ name: 'name', label: 'Name', required: true }]}
          onClose={() => setSaving(false)}
          onSubmit={async ({ name }) => {
            await post(PATH, { name, table, state: { search, layout } })
            await changed(PATH)
            toast('Saved for all administrators')
          }}
        />
      )}
    </>
  )
}
