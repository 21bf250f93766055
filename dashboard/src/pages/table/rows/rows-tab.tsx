import { useMemo, useState } from 'react'
import { sentence } from '../../../api/client.ts'
import type { Table } from '../../../api/schema.ts'
import { useAddress } from '../../../app/navigate.tsx'
import { Grid } from '../../../parts/grid/grid.tsx'
import { ErrorLine } from '../../../parts/ui.tsx'
import { CellDialog } from './cell-dialog.tsx'
import { ChangesBar } from './changes-bar.tsx'
import { columnsOf, setSort } from './columns.ts'
import { DropFrame } from './drop-frame.tsx'
import { CellEditor } from './editors.tsx'
import { addRow, editsOf, setCell } from './edits.ts'
import { useHiddenRows } from './hidden-rows.ts'
import { ImportDialog } from './import.tsx'
import { moved, ordered, useLayout } from './layout.ts'
import { clearCells, pasteCells } from './ranges.ts'
import type { RowData } from './row-pages.ts'
import { RowPanel } from './row-panel.tsx'
import { RowsStatus } from './rows-status.tsx'
import { idOf } from './save.ts'
import { type Shown, useShownRows } from './shown-rows.ts'
import { Toolbar } from './toolbar.tsx'
import { useEditing } from './use-editing.ts'
import { useMarked } from './use-marked.tsx'
import { useRows } from './use-rows.ts'

/** The filter of the address, and from which value on. */
const joined = (filter: string, jump: string): string => (filter && jump ? `(${filter}) AND (${jump})` : filter || jump)

export function RowsTab({ name, table }: { name: string; table: Table }) {
  const [{ filter = '', sort = '', row: opened, jump = '' }, go] = useAddress()
  const choice = useMemo(() => ({ filter: joined(filter, jump), sort }), [filter, jump, sort])
  const { pages, flashes, isLive, core, hasKey } = useRows(name, table, choice)
  const store = editsOf(name)
  const edits = store.use()
  const names = useMemo(() => table.columns.map((column) => column.name), [table])
  const layouts = useLayout(name, names)
  const [layout, setLayout] = layouts
  const marking = useMarked(store, choice)
  const [file, setFile] = useState<File | null>(null)
  useHiddenRows(name, choice.filter)
  const isView = table.kind === 'view' || table.kind === 'materialized_view'
  const canWrite = !isView && hasKey
  const canAdd = !isView
  const mayWrite = ({ row }: Shown): boolean => (row ? canWrite : canAdd)
  const generated = useMemo(
    () => new Set(table.columns.flatMap((column) => (column.isGenerated ? [column.name] : []))),
    [table],
  )
  const mayWriteCell = (shown: Shown, column: string): boolean => mayWrite(shown) && !generated.has(column)

  const rows = useShownRows({ table, pages, edits, flashes })
  const { editing, edit, close } = useEditing({
    ...rows,
    table,
    choice,
    mayWrite: mayWriteCell,
    async readWhole({ key }, column) {
      const path = `/api/collections/${encodeURIComponent(name)}/${encodeURIComponent(key).replaceAll('%2C', ',')}`
      return (await core.send<RowData>('GET', path, { query: { fields: column } }))[column]
    },
  })
  const sorts = sort.split(',').filter(Boolean)
  // The grid compares columns by identity; they are made anew only when something about them changed.
  const columns = useMemo(() => columnsOf({ table, layout, sort, go, setLayout }), [table, layout, sort, name, filter])
  const range = { table, columns, rows, store, mayWrite }

  const editedColumn = editing && table.columns.find((column) => column.name === editing.column)
  const finish = (value: unknown): void => {
    if (editing) setCell(store, editing.shown.key, editing.column, value, editing.shown.row)
  }
  const [focused, setFocused] = useState<{ row: number; column: string } | null>(null)
  const add = (): void => {
    addRow(store)
    const open = columns.flatMap(({ id }) =>
      table.columns.filter(({ name, isGenerated }) => name === id && !isGenerated),
    )
    const first = open.find((column) => column.default === undefined && !column.isIdentity) ?? open[0]
    setFocused({ row: store.get().created.length - 1, column: first?.name ?? '' })
  }
  const { total } = pages
  return (
    <DropFrame onFile={canAdd ? setFile : undefined}>
      <Toolbar
        name={name}
        table={table}
        choice={choice}
        error={pages.error ? sentence(pages.error) : ''}
        layout={layouts}
        columns={columns}
        canAdd={canAdd}
        onAdd={add}
        onFile={setFile}
      />
      <ErrorLine error={pages.error} />
      <div className="with-side">
        <div className="grid-frame">
          <Grid<Shown>
            label={`Rows of ${name}`}
            columns={columns}
            count={rows.count}
            total={total === undefined || total < 0 ? undefined : total + edits.created.length}
            rowAt={rows.shownAt}
            cell={rows.cell}
            rowLook={({ key, row }) =>
              `${row ? '' : 'new'} ${edits.deleted.has(key) ? 'deleted' : ''} ${marking.marked.has(key) ? 'marked' : ''}`
            }
            onVisible={(first, last) => {
              const made = edits.created.length
              pages.need(Math.max(0, first - made), Math.max(0, last - made))
            }}
            gutter={marking.gutter}
            corner={marking.corner}
            onEdit={edit}
            editor={
              editing && !editing.whole && editedColumn
                ? {
                    row: editing.index,
                    column: editing.column,
                    node: (
                      <CellEditor
                        column={editedColumn}
                        value={editing.value}
                        typed={editing.typed}
                        onCancel={close}
                        onDone={(value) => {
                          finish(value)
                          close()
                        }}
                      />
                    ),
                  }
                : null
            }
            {...(canAdd && {
              onPaste: (spot, lines) => pasteCells(range, spot, lines),
              onClear: (chosen) => clearCells(range, chosen),
            })}
            onOpen={(index) => {
              const shown = rows.shownAt(index)
              if (shown?.row && hasKey) go({ row: shown.key })
            }}
            onMark={(index) => {
              const shown = rows.shownAt(index)
              if (shown) marking.mark(shown)
            }}
            onSort={(id) =>
              setSort(go, id, sorts.includes(id) ? 'descending' : sorts.includes(`-${id}`) ? '' : 'ascending')
            }
            onResize={(id, width) => setLayout({ widths: { ...layout.widths, [id]: width } })}
            onMove={(id, before) => {
              setLayout({ order: moved(ordered(names, layout), id, before) })
            }}
            focused={focused}
            resetKey={JSON.stringify([name, choice])}
          />
          {pages.isWhole && pages.read === 0 && edits.created.length === 0 && (
            <p className="grid-empty">
              {filter || jump
                ? 'No row fits the filter.'
                : canAdd
                  ? 'No row here. Add one, paste from a spreadsheet, or drop a CSV.'
                  : 'No row here.'}
            </p>
          )}
          <ChangesBar
            name={name}
            table={table}
            core={core}
            onSaved={() => void pages.refresh()}
            status={
              <RowsStatus
                pages={pages}
                isLive={isLive}
                hasKey={hasKey}
                canAdd={canAdd}
                marked={canWrite ? marking.marked.size : 0}
                onDelete={() => void marking.deleteMarked()}
              />
            }
          />
        </div>
        {opened !== undefined && (
          <RowPanel
            key={opened}
            name={name}
            table={table}
            id={opened}
            shown={pages.find((row) => idOf(table, row) === opened)}
            edited={edits.updated.get(opened)?.values}
            canWrite={canWrite}
            onClose={() => go({ row: undefined, panel: undefined })}
            onSet={(row, column, value) => setCell(store, opened, column, value, row)}
          />
        )}
      </div>
      {editing?.whole && editedColumn && (
        <CellDialog
          column={editedColumn}
          foreignKey={table.foreignKeys?.find(({ columns: own }) => own.length === 1 && own[0] === editing.column)}
          value={editing.value}
          typed={editing.typed}
          isNew={!editing.shown.row}
          readOnly={!mayWriteCell(editing.shown, editing.column)}
          onDone={finish}
          onClose={close}
        />
      )}
      {file && (
        <ImportDialog
          name={name}
          table={table}
          file={file}
          onClose={() => setFile(null)}
          onDone={() => void pages.refresh()}
        />
      )}
    </DropFrame>
  )
}
