import { useEffect, useMemo, useRef, useState } from 'react'
import { patch, post } from '../../api/client.ts'
import { useAction } from '../../api/hooks.ts'
import { schemaChanged, useSchema } from '../../api/schema.ts'
import { useAddress } from '../../app/navigate.tsx'
import { ViewAsButton } from '../../app/view-as-banner.tsx'
import { confirm } from '../../parts/dialog.tsx'
import { Editor } from '../../parts/editor/editor.tsx'
import { duration, plural, visible } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Page } from '../../parts/page.tsx'
import { toast } from '../../parts/toast.tsx'
import { Button, Check, ErrorLine, Note } from '../../parts/ui.tsx'
import { dangersOf, isWriting } from './guard.ts'
import { Result } from './result.tsx'
import { asViewed, type Outcome, runSql } from './run.ts'
import { SavedForm, SavedQueries } from './saved.tsx'
import { changeTab, closeTab, openTab, type SqlTab, sqlTabs } from './tabs.ts'

const QUERIES = '/api/admin/dashboard/queries'

/** Names for the completion. */
function useNames() {
  const { schema } = useSchema()
  return useMemo(() => {
    const names: Record<string, string[]> = Object.create(null)
    for (const { schema: space, name, columns } of schema?.tables.values() ?? [])
      names[space === 'public' ? name : `${space}.${name}`] = columns.map((column) => column.name)
    return names
  }, [schema])
}

type DryRun = { dry_run: { answer: { rowCount?: number } } }

const dryRun = (query: string): Promise<DryRun | null> =>
  post<DryRun>('/api/admin/sql', { query, dry_run: true, ...asViewed() }).catch(() => null)

/** Before UPDATE and DELETE: how many rows they would touch. Before TRUNCATE and DROP: the name of what goes. */
async function isMeant(query: string): Promise<boolean> {
  for (const { kind, statement, name, isCounted } of dangersOf(query)) {
    if (kind === 'drop') {
      if (
        !(await confirm({
          title: 'This cannot be taken back',
          text: <pre className="wrap">{statement}</pre>,
          name,
          yes: 'Run it',
        }))
      )
        return false
      continue
    }
    const counted = isCounted ? await dryRun(statement) : null
    const rows = counted?.dry_run?.answer?.rowCount
    const isAll = kind === 'all rows'
    // One that is refused says so itself, and one that finds no row does nothing.
    if (!isAll && !rows) continue
    const text =
      rows === undefined
        ? 'It has no WHERE, and writes every row.'
        : `${isAll ? 'It has no WHERE, and' : 'It'} would write ${plural(rows, 'row')}.`
    if (
      !(await confirm({
        title: isAll ? `All rows of ${name}?` : `${plural(rows ?? 0, 'row')} of ${name}?`,
        text: (
          <>
            {text}
            <pre className="wrap">{statement}</pre>
          </>
        ),
        yes: 'Run it',
      }))
    )
      return false
  }
  return true
}

export default function SqlPage() {
  const { tabs, current } = sqlTabs.use()
  const tab = tabs.find(({ id }) => id === current) ?? tabs[0]
  const [{ new: isNew }, go] = useAddress()
  const [readOnly, setReadOnly] = useState(false)
  const [dryRun, setDryRun] = useState(false)
  const [outcomes, setOutcomes] = useState<ReadonlyMap<string, Outcome | Error>>(new Map())
  const [running, setRunning] = useState<AbortController | null>(null)
  const selection = useRef('')
  const names = useNames()
  useEffect(() => {
    if (!isNew) return
    openTab()
    go({ new: undefined }, { replace: true })
  }, [isNew])
  if (!tab) return null
  const outcome = outcomes.get(tab.id)

  async function run(query: string): Promise<void> {
    const id = tab?.id ?? ''
    if (query.trim() === '' || running || (!readOnly && !dryRun && !(await isMeant(query)))) return
    const stop = new AbortController()
    setRunning(stop)
    try {
      // As it was saved it runs with the lesser role of its author and who runs it; once changed it is one's own.
      const isSaved = tab?.saved !== undefined && query === tab.query && query === tab.savedQuery
      const what = isSaved ? { saved: tab.saved ?? '' } : { query }
      const answer = await runSql(what, { readOnly, dryRun }, stop.signal)
      setOutcomes(new Map(outcomes).set(id, answer))
      if (isWriting(query) && !dryRun) await schemaChanged()
    } catch (error) {
      const isStopped = stop.signal.aborted
      setOutcomes(
        new Map(outcomes).set(id, isStopped ? new Error('Stopped. PostgreSQL was stopped too.') : (error as Error)),
      )
    } finally {
      setRunning(null)
    }
  }
  const explain = (): void =>
    void run(
      `explain (format json, analyze ${isWriting(tab.query) ? 'false' : 'true'}) ${(selection.current || tab.query).trim().replace(/;\s*$/, '')}`,
    )
  return (
    <Page title="SQL" look="full" actions={<ViewAsButton />}>
      <div className="sql-page">
        <div className="sql-work">
          <div className="sql-tabs" role="group" aria-label="Queries">
            {tabs.map(({ id, name }) => (
              <span key={id} className={id === tab.id ? 'sql-tab current' : 'sql-tab'}>
                <button type="button" aria-pressed={id === tab.id} onClick={() => sqlTabs.set({ tabs, current: id })}>
                  {name}
                </button>
                <button type="button" aria-label={`Close ${name}`} onClick={() => closeTab(id)}>
                  <Icon name="x" size={12} />
                </button>
              </span>
            ))}
            <Button look="quiet small" icon="plus" aria-label="New query" onClick={() => openTab()} />
          </div>
          <Editor
            key={tab.id}
            label="SQL"
            value={tab.query}
            schema={names}
            onChange={(query) => changeTab(tab.id, { query })}
            onRun={(part) => void run(part || sqlTabs.get().tabs.find(({ id }) => id === tab.id)?.query || '')}
          />
          <div className="row">
            {running ? (
              <Button look="danger" icon="stop" onClick={() => running.abort(new Error('stopped'))}>
                Cancel
              </Button>
            ) : (
              <Button look="primary" icon="play" onClick={() => void run(tab.query)}>
                Run
              </Button>
            )}
            <Button icon="chart" disabled={running !== null} onClick={explain}>
              Explain
            </Button>
            <SaveButton tab={tab} />
            <Check label="Read only" checked={readOnly} onChange={setReadOnly} />
            <Check label="Dry run" checked={dryRun} onChange={setDryRun} />
            <span className="grow" />
            <span className="muted wide-only">
              <kbd>Ctrl Enter</kbd> runs the selection, or everything
            </span>
          </div>
          <div className="sql-results" aria-live="polite">
            {running && <p className="loading">Running…</p>}
            {outcome instanceof Error ? <ErrorLine error={outcome} /> : outcome && <Outcomes outcome={outcome} />}
          </div>
        </div>
        <SavedQueries />
      </div>
    </Page>
  )
}

function Outcomes({ outcome }: { outcome: Outcome }) {
  return (
    <>
      {outcome.saved && (
        <p className="muted">
          Ran as the saved query <strong className="isolate">{visible(outcome.saved.name)}</strong> of{' '}
          <span className="isolate">{visible(outcome.saved.author)}</span>, run by{' '}
          <span className="isolate">{visible(outcome.saved.runner)}</span>, with the role {outcome.saved.role}.
        </p>
      )}
      {outcome.changes && (
        <Note>
          {`A dry run: nothing was kept. It would change ${plural(outcome.changes.length, 'row')} of tables that the change log knows.`}
        </Note>
      )}
      {outcome.results.map((result, index) => (
        <Result key={index} result={result} index={index} />
      ))}
      {outcome.results.length > 1 && (
        <p className="muted">{`${outcome.results.length} statements in ${duration(outcome.tookMs)}, one transaction`}</p>
      )}
    </>
  )
}

function SaveButton({ tab }: { tab: SqlTab }) {
  const [isOpen, open] = useState(false)
  const update = useAction(
    async () => {
      await patch(`${QUERIES}/${encodeURIComponent(tab.saved ?? '')}`, { query: tab.query })
      changeTab(tab.id, { savedQuery: tab.query })
    },
    { done: `“${tab.name}” is changed for all administrators`, changes: [QUERIES] },
  )
  return (
    <>
      {tab.saved && (
        <Button icon="star" busy={update.busy} onClick={() => update.run()}>
          {`Save “${tab.name}”`}
        </Button>
      )}
      <Button {...(!tab.saved && { icon: 'star' })} onClick={() => open(true)}>
        {tab.saved ? 'Save as' : 'Save'}
      </Button>
      {isOpen && <SaveDialog tab={tab} onClose={() => open(false)} />}
    </>
  )
}

function SaveDialog({ tab, onClose }: { tab: SqlTab; onClose(): void }) {
  return (
    <SavedForm
      name={tab.name}
      onClose={onClose}
      onSave={async (name) => {
        const { id } = await post<{ id: string }>(QUERIES, { name, query: tab.query })
        changeTab(tab.id, { name, saved: id, savedQuery: tab.query })
        toast('Saved for all administrators')
      }}
    />
  )
}
