import type { Table } from '../../../api/schema.ts'
import { useAddress } from '../../../app/navigate.tsx'
import { MenuButton } from '../../../parts/menu.tsx'
import { Button } from '../../../parts/ui.tsx'
import { ExportMenu } from './export.tsx'
import { FilterBar } from './filter-bar.tsx'
import { JumpTo } from './jump.tsx'
import { ordered, type useLayout } from './layout.ts'
import type { Choice } from './use-rows.ts'
import { Views } from './views.tsx'

type ToolbarProps = {
  name: string
  table: Table
  choice: Choice
  /** What is wrong with the filter. */
  error: string
  layout: ReturnType<typeof useLayout>
  columns: readonly { id: string }[]
  canAdd: boolean
  onAdd(): void
  onFile(file: File): void
}

/** What is shown of the table, and what comes into it and goes out. */
export function Toolbar({ name, table, choice, error, layout: [layout, setLayout], ...rest }: ToolbarProps) {
  const [{ filter = '', sort = '', jump = '' }, go] = useAddress()
  const [first] = sort.split(',').filter(Boolean)
  const names = ordered(
    table.columns.map((column) => column.name),
    layout,
  )
  const toggled = (id: string): string[] =>
    layout.hidden.includes(id) ? layout.hidden.filter((other) => other !== id) : [...layout.hidden, id]
  return (
    <div className="filter-bar row-gap">
      <FilterBar
        table={table}
        filter={filter}
        error={filter ? error : ''}
        onFilter={(text) => go({ filter: text || undefined, row: undefined })}
      />
      {first && <JumpTo table={table} sort={first} jump={jump} onJump={(text) => go({ jump: text || undefined })} />}
      <MenuButton
        label="Columns"
        icon="columns"
        items={names.map((id) => ({
          label: id,
          checked: !layout.hidden.includes(id),
          run: () => setLayout({ hidden: toggled(id) }),
        }))}
      >
        Columns
      </MenuButton>
      <Views
        table={name}
        search={{ filter: filter || undefined, sort: sort || undefined }}
        layout={layout}
        onOpen={(search, saved) => {
          go({ filter: undefined, sort: undefined, jump: undefined, ...search })
          setLayout({ hidden: [], order: [], ...saved })
        }}
      />
      <ExportMenu
        name={name}
        table={table}
        filter={choice.filter}
        sort={sort}
        fields={rest.columns.map(({ id }) => id)}
      />
      {rest.canAdd && (
        <>
          <Button icon="upload" onClick={() => pickFile(rest.onFile)}>
            Import
          </Button>
          <Button look="primary" icon="plus" onClick={rest.onAdd}>
            Add row
          </Button>
        </>
      )}
    </div>
  )
}

function pickFile(onFile: (file: File) => void): void {
  const input = document.createElement('input')
  input.type = 'file'
  input.accept = '.csv,text/csv'
  input.onchange = () => {
    const [file] = input.files ?? []
    if (file) onFile(file)
  }
  input.click()
}
