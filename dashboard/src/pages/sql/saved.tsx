import { remove } from '../../api/client.ts'
import { changed, useAction, useApi } from '../../api/hooks.ts'
import { confirm, FormDialog } from '../../parts/dialog.tsx'
import { MenuButton } from '../../parts/menu.tsx'
import { ErrorLine } from '../../parts/ui.tsx'
import { openTab } from './tabs.ts'

type Saved = { id: string; name: string; query: string; author?: string | null; updated_at?: string }

const PATH = '/api/admin/dashboard/queries'

/** Opens in a tab; nothing runs before a key press. */
export function SavedQueries() {
  const { data, error } = useApi<{ items: Saved[] }>(PATH)
  const drop = useAction((id: string) => remove(`${PATH}/${encodeURIComponent(id)}`), {
    done: 'Deleted',
    changes: [PATH],
  })
  return (
    <aside className="panel" aria-label="Saved queries">
      <h2>Saved queries</h2>
      <ErrorLine error={error} />
      {data?.items.length === 0 && <p className="muted">None yet. What you save here, all administrators see.</p>}
      <ul className="panel">
        {data?.items.map(({ id, name, query, author }) => (
          <li key={id} className="row">
            <button type="button" className="field-value grow" onClick={() => openTab(query, name, id)}>
              <strong>{name}</strong>
              {author && <div className="muted">{author}</div>}
            </button>
            <MenuButton
              label={`More of ${name}`}
              look="quiet small"
              icon="more"
              items={[
                { label: 'Open', icon: 'open', run: () => openTab(query, name, id) },
                {
                  label: 'Delete',
                  icon: 'trash',
                  danger: true,
                  run: async () => {
                    if (
                      await confirm({
                        title: `Delete “${name}”?`,
                        text: 'It goes for all administrators.',
                        yes: 'Delete',
                      })
                    )
                      drop.run(id)
                  },
                },
              ]}
            />
          </li>
        ))}
      </ul>
    </aside>
  )
}

export function SavedForm({
  name,
  onClose,
  onSave,
}: {
  name: string
  onClose(): void
  onSave(name: string): Promise<unknown>
}) {
  return (
    <FormDialog
      title="Save the query"
      yes="Save"
      fields={[{ name: 'name', label: 'Name', value: name, required: true }]}
      onClose={onClose}
      onSubmit={async (values) => {
        await onSave(String(values['name']))
        await changed(PATH)
      }}
    />
  )
}
