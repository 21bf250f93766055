import { useCallback, useEffect, useMemo, useState } from 'react'
import { sentence } from '../../../api/client.ts'
import type { Table } from '../../../api/schema.ts'
import { useAddress } from '../../../app/navigate.tsx'
import { confirm } from '../../../parts/dialog.tsx'
import { plural } from '../../../parts/format.ts'
import { Grid } from '../../../parts/grid/grid.tsx'
import type { GridCell, GridColumn, Range, Spot } from '../../../parts/grid/types.ts'
import { MenuButton } from '../../../parts/menu.tsx'
import { toast } from '../../../parts/toast.tsx'
import { Button, ErrorLine } from '../../../parts/ui.tsx'
import { CellDialog } from './cell-dialog.tsx'
import { ChangesBar } from './changes-bar.tsx'
import { columnsOf, setSort } from './columns.ts'
import { CellEditor } from './editors.tsx'
import { addRow, editsOf, markDeleted, setCell } from './edits.ts'
import { ExportMenu } from './export.tsx'
import { FilterBar } from './filter-bar.tsx'
import { useHiddenRows } from './hidden-rows.ts'
import { ImportDialog } from './import.tsx'
import { JumpTo } from './jump.tsx'
import { moved, ordered, useLayout } from './layout.ts'
import type { RowData } from './row-pages.ts'
import { RowPanel } from './row-panel.tsx'
import { idOf } from './save.ts'
import { type Shown, useEditing } from './use-editing.ts'
import { useRows } from './use-rows.ts'
import { kindOf, parsePasted } from './values.ts'
import { Views } from './views.tsx'

export function RowsTab({ name, table }: { name: string; table: Table }) {
  const [{ filter = '', sort = '', row: opened, jump = '' }, go] = useAddress()
  const choice = useMemo(
    () => ({
      filter: [filter, jump]
        .filter(Boolean)
        .map((part) => (filter && jump ? `(${part})` : part))
        .join(' AND '),
      sort,
    }),
    [filter, jump, sort],
  )
  const { pages, flashes, isLive, core, hasKey } = useRows(name, table, choice)
  const store = editsOf(name)
  const edits = store.use()
  const [layout, setLayout] = useLayout(name)
  const [marked, setMarked] = useState<ReadonlyMap<string, RowData | undefined>>(new Map())
  const [file, setFile] = useState<File | null>(null)
  const [isDropping, setDropping] = useState(false)
  const isView = table.kind === 'view' || table.kind === 'materialized_view'
  const canWrite = !isView && hasKey
  const canAdd = !isView
  useHiddenRows(name, choice.filter)
  useEffect(() => setMarked(new Map()), [name, choice])

  const made = edits.created
  const shownAt = (index: number): Shown | undefined => {
    const fresh = made[index]
    if (fresh) return { key: fresh.id, row: undefined }
    const row = pages.at(index - made.length)
    return row && { key: hasKey ? idOf(table, row) : `row ${index}`, row }
  }
  const columnOf = (id: string) => table.columns.find((column) => column.name === id)
  const cellValue = useCallback(
    ({ key, row }: Shown, column: string): unknown => {
      const values = row ? edits.updated.get(key)?.values : edits.created.find(({ id }) => id === key)?.values
      if (values?.has(column)) return values.get(column)
      return row && Object.hasOwn(row, column) ? row[column] : undefined
    },
    [edits],
  )
  const cell = useCallback(
    (shown: Shown, { id }: GridColumn): GridCell => {
      const value = cellValue(shown, id)
      const problem = edits.problems.get(shown.key)
      const isBad = problem?.columns.includes(id)
      const isEdited = shown.row ? edits.updated.get(shown.key)?.values.has(id) : value !== undefined
      const flash = flashes.get(shown.key)
      const isFlashing = flash?.columns.has(id)
      const isDefault = shown.row === undefined && value === undefined
      return {
        value: isDefault ? '⟨default⟩' : value,
        look: `${isBad ? 'bad ' : ''}${isEdited ? 'edited' : ''}`,
        ...(isBad && problem && { hint: problem.message }),
        ...(isFlashing && flash && { flash: flash.turn }),
      }
    },
    [edits, flashes, cellValue],
  )
  const sorts = sort.split(',').filter(Boolean)
  const names = ordered(
    table.columns.map((column) => column.name),
    layout,
  )
  // The grid compares columns by identity; they are made anew only when something about them changed.
  const stable = useMemo(() => columnsOf({ table, layout, sort, go, setLayout }), [table, layout, sort, name, filter])

  const setValue = (shown: Shown, column: string, value: unknown): void =>
    setCell(store, shown.key, column, value, shown.row)
  const { editing, edit, close } = useEditing({
    table,
    choice,
    shownAt,
    indexOf: (key) => {
      const fresh = made.findIndex(({ id }) => id === key)
      const at = fresh < 0 && hasKey ? pages.indexOf((row) => idOf(table, row) === key) : -1
      return at < 0 ? fresh : made.length + at
    },
    isBeyond: (index) => pages.isWhole && index >= made.length + pages.read,
    mayWrite: ({ row }) => (row ? canWrite : canAdd),
    cellValue,
    isCut: ({ key, row }, column) => {
      const cut = row?.['_cut']
      return Array.isArray(cut) && cut.includes(column) && !edits.updated.get(key)?.values.has(column)
    },
    async readWhole({ key }, column) {
      const path = `/api/collections/${encodeURIComponent(name)}/${encodeURIComponent(key).replaceAll('%2C', ',')}`
      return (await core.send<RowData>('GET', path, { query: { fields: column } }))[column]
    },
  })
  function paste({ row, column }: Spot, lines: string[][]): void {
    const view = [...stable.filter(({ pinned }) => pinned), ...stable.filter(({ pinned }) => !pinned)]
    const isHead = lines.length > 1 && (lines[0] ?? []).every((text) => columnOf(text) !== undefined)
    const targets = isHead ? (lines[0] ?? []) : view.slice(column).map(({ id }) => id)
    const failures: string[] = []
    let cells = 0
    for (const [offset, line] of (isHead ? lines.slice(1) : lines).entries()) {
      const at = row + offset
      const shown = at < made.length || row >= made.length ? shownAt(at) : undefined
      const key = shown?.key ?? addRow(store)
      for (const [position, text] of line.entries()) {
        const target = columnOf(targets[position] ?? '')
        // An empty cell of a new row means its default.
        if (!target || (text === '' && !shown?.row)) continue
        try {
          setCell(store, key, target.name, parsePasted(target, text), shown?.row)
          cells++
        } catch (error) {
          failures.push(`line ${offset + 1}, ${target.name}: ${(error as Error).message}`)
        }
      }
    }
    if (failures.length > 0) toast(`${plural(failures.length, 'cell')} not taken: ${failures[0]}`, { bad: true })
    else toast(`${plural(cells, 'cell')} pasted. Nothing is saved yet.`)
  }
  function clear(range: Range): void {
    const view = [...stable.filter(({ pinned }) => pinned), ...stable.filter(({ pinned }) => !pinned)]
    for (let at = range.top; at <= range.bottom; at++) {
      const shown = shownAt(at)
      if (!shown || !(shown.row ? canWrite : canAdd)) continue
      for (const { id } of view.slice(range.left, range.right + 1)) {
        const column = columnOf(id)
        if (column)
          setValue(
            shown,
            id,
            shown.row === undefined
              ? undefined
              : column.nullable
                ? null
                : kindOf(column) === 'text'
                  ? ''
                  : cellValue(shown, id),
          )
      }
    }
  }
  async function deleteMarked(): Promise<void> {
    const isYes = await confirm({
      title: `Delete ${plural(marked.size, 'row')}?`,
      text: `They are marked now, and go when you save. A saved deletion can be undone from the history.`,
      yes: 'Mark for deletion',
    })
    if (!isYes) return
    markDeleted(store, [...marked])
    setMarked(new Map())
  }
  const mark = (shown: Shown, isMarked: boolean): void => {
    const next = new Map(marked)
    if (isMarked) next.set(shown.key, shown.row)
    else next.delete(shown.key)
    setMarked(next)
  }
  const open = (index: number): void => {
    const shown = shownAt(index)
    if (shown?.row && hasKey) go({ row: shown.key })
  }
  const editedColumn = editing && columnOf(editing.column)
  const total = pages.total
  const openedRow = opened === undefined ? undefined : findRow(pages, table, opened)
  const error = pages.error ? sentence(pages.error) : ''
  const finish = (value: unknown): void => {
    if (editing) setValue(editing.shown, editing.column, value)
  }
  return (
    <div
      className={`grid-frame ${isDropping ? 'drop' : ''}`}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes('Files') || !canAdd) return
        event.preventDefault()
        setDropping(true)
      }}
      onDragLeave={() => setDropping(false)}
      onDrop={(event) => {
        const [dropped] = event.dataTransfer.files
        setDropping(false)
        if (!dropped || !canAdd) return
        event.preventDefault()
        setFile(dropped)
      }}
    >
      <div className="filter-bar row-gap">
        <FilterBar
          table={table}
          filter={filter}
          error={filter ? error : ''}
          onFilter={(text) => go({ filter: text || undefined, row: undefined })}
        />
        {sorts[0] && (
          <JumpTo table={table} sort={sorts[0]} jump={jump} onJump={(text) => go({ jump: text || undefined })} />
        )}
        <MenuButton
          label="Columns"
          icon="columns"
          items={names.map((id) => ({
            label: id,
            checked: !layout.hidden.includes(id),
            run: () =>
              setLayout({
                hidden: layout.hidden.includes(id)
                  ? layout.hidden.filter((other) => other !== id)
                  : [...layout.hidden, id],
              }),
          }))}
        >
          Columns
        </MenuButton>
        <Views
          table={name}
          search={{ filter: filter || undefined, sort: sort || undefined }}
          layout={layout}
          onOpen={(search, saved) => {
            setLayout(saved)
            go({ filter: undefined, sort: undefined, jump: undefined, ...search })
          }}
        />
        <ExportMenu name={name} filter={choice.filter} sort={sort} fields={stable.map(({ id }) => id)} />
        {canAdd && (
          <Button icon="upload" onClick={() => pickFile(setFile)}>
            Import
          </Button>
        )}
        {canAdd && (
          <Button look="primary" icon="plus" onClick={() => addRow(store)}>
            Add row
          </Button>
        )}
      </div>
      <ErrorLine error={pages.error} />
      <div className="with-side">
        <div className="grid-frame">
          <Grid<Shown>
            label={`Rows of ${name}`}
            columns={stable}
            count={made.length + pages.count}
            total={total === undefined || total < 0 ? undefined : total + made.length}
            rowAt={shownAt}
            cell={cell}
            rowLook={({ key, row }) =>
              `${row ? '' : 'new'} ${edits.deleted.has(key) ? 'deleted' : ''} ${marked.has(key) ? 'marked' : ''}`
            }
            onVisible={(first, last) => pages.need(Math.max(0, first - made.length), Math.max(0, last - made.length))}
            gutter={(shown) =>
              shown && (
                <input
                  type="checkbox"
                  aria-label={`Mark row ${shown.key}`}
                  checked={marked.has(shown.key)}
                  tabIndex={-1}
                  onChange={(event) => mark(shown, event.target.checked)}
                />
              )
            }
            corner={<MarkAll key={marked.size} marked={marked.size} onClear={() => setMarked(new Map())} />}
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
            {...(canAdd && { onPaste: paste, onClear: clear })}
            onOpen={open}
            onMark={(index) => {
              const shown = shownAt(index)
              if (shown) mark(shown, !marked.has(shown.key))
            }}
            onSort={(id) =>
              setSort(go, id, sorts.includes(id) ? 'descending' : sorts.includes(`-${id}`) ? '' : 'ascending')
            }
            onResize={(id, width) => setLayout({ widths: { ...layout.widths, [id]: width } })}
            onMove={(id, before) => setLayout({ order: moved(names, id, before) })}
            resetKey={JSON.stringify([name, choice])}
          />
          {pages.isWhole && pages.read === 0 && made.length === 0 && (
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
              <>
                <span>
                  {total === undefined || total < 0
                    ? plural(pages.read, 'row') + (pages.isWhole ? '' : ' so far')
                    : `${pages.isEstimate ? 'about ' : ''}${plural(total, 'row')}`}
                </span>
                {isLive && (
                  <span className="badge ok">
                    <span aria-hidden="true">●</span> live
                  </span>
                )}
                {!hasKey && <span>No primary key: rows can be read{canAdd ? ' and added' : ''}, not changed.</span>}
                <span className="grow" />
                {marked.size > 0 && canWrite && (
                  <Button look="small danger" icon="trash" onClick={() => void deleteMarked()}>
                    {`Delete ${plural(marked.size, 'row')}`}
                  </Button>
                )}
                <span className="muted wide-only">Space opens a row, Shift Space marks it, Enter edits</span>
              </>
            }
          />
        </div>
        {opened !== undefined && (
          <RowPanel
            key={opened}
            name={name}
            table={table}
            id={opened}
            shown={openedRow}
            edited={edits.updated.get(opened)?.values}
            canWrite={canWrite}
            onClose={() => go({ row: undefined })}
            onSet={(row, column, value) => setCell(store, opened, column, value, row)}
          />
        )}
      </div>
      {editing?.whole && editedColumn && (
        <CellDialog
          column={editedColumn}
          foreignKey={table.foreignKeys?.find(({ columns: own }) => own.length === 1 && own[0] === editing.column)}
          value={editing.typed ?? editing.value}
          isNew={!editing.shown.row}
          readOnly={!(editing.shown.row ? canWrite : canAdd)}
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
    </div>
  )
}

function findRow(
  pages: { read: number; at(index: number): RowData | undefined },
  table: Table,
  id: string,
): RowData | undefined {
  for (let index = 0; index < pages.read; index++) {
    const row = pages.at(index)
    if (row && idOf(table, row) === id) return row
  }
  return undefined
}

const MarkAll = ({ marked, onClear }: { marked: number; onClear(): void }) =>
  marked === 0 ? (
    <span className="visually-hidden">Mark</span>
  ) : (
    <Button look="quiet small" icon="x" aria-label={`Unmark ${marked} rows`} title="Unmark all" onClick={onClear} />
  )

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
