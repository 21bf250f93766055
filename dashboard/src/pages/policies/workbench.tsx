import { useState } from 'react'
import { post } from '../../api/client.ts'
import { type Policy, schemaChanged, type Table } from '../../api/schema.ts'
import { sql } from '../../api/sql.ts'
import { UserBox } from '../../app/view-as-dialog.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { plural, visible } from '../../parts/format.ts'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Check, ErrorLine, Field, Note, Snippet } from '../../parts/ui.tsx'
import { download } from '../table/rows/export.tsx'
import { type Draft, draftOf, statementsOf } from './policy-sql.ts'

type Person = { id: string; email: string }
type Effect = {
  user: string | null
  operation: string
  gains: string[]
  loses: string[]
  gained: number
  lost: number
  error?: string
}
type Compared = { rows: number; effects: Effect[] }

const COMMANDS = ['ALL', 'SELECT', 'INSERT', 'UPDATE', 'DELETE']
const ROLES = [
  ['svc_authenticated', 'users and keys'],
  ['svc_anon', 'visitors'],
] as const
const OPERATIONS = ['select', 'insert', 'update', 'delete']
const SHOWN = 8

/** A policy beside sample identities: who gains and who loses which rows is known before it is saved. */
export function Workbench({
  name,
  table,
  policy,
  onClose,
}: {
  name: string
  table: Table
  policy: Partial<Policy>
  onClose(): void
}) {
  const [draft, setDraft] = useState<Draft>(() => draftOf(policy))
  const [people, setPeople] = useState<Person[]>([])
  const [compared, setCompared] = useState<Compared | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const change = (part: Partial<Draft>): void => {
    setDraft({ ...draft, ...part })
    setCompared(null)
  }
  const statements = statementsOf(table, draft, policy.name)

  async function work(task: () => Promise<void>): Promise<void> {
    setBusy(true)
    setError(null)
    try {
      await task()
    } catch (failure) {
      setError(failure)
    } finally {
      setBusy(false)
    }
  }
  const compare = (): Promise<void> =>
    work(async () => {
      const { using, check, ...rest } = draft
      setCompared(
        await post<Compared>('/api/admin/rls/compare', {
          table: name,
          ...(policy.name !== undefined && { replaces: policy.name }),
          policy: { ...rest, ...(using && { using }), ...(check && { withCheck: check }) },
          users: people.map(({ id }) => id),
          operations: OPERATIONS,
        }),
      )
    })
  const save = (): Promise<void> =>
    work(async () => {
      await sql(statements)
      await schemaChanged()
      toast('The policy is in force')
      onClose()
    })
  return (
    <Dialog
      title={policy.name ? `Policy ${policy.name} on ${name}` : `New policy on ${name}`}
      look="wide"
      onClose={onClose}
      onSubmit={() => void save()}
      foot={
        <>
          <Button
            icon="download"
            onClick={() =>
              download(
                new Blob([`${statements}\n`]),
                `${new Date().toISOString().slice(0, 10).replaceAll('-', '')}_${draft.name}.sql`,
              )
            }
          >
            Migration file
          </Button>
          <span className="grow" />
          <Button busy={busy} onClick={() => void compare()}>
            Who gains, who loses
          </Button>
          <Button type="submit" look="primary" busy={busy}>
            Save policy
          </Button>
        </>
      }
    >
      <div className="row">
        <div className="grow">
          <Field label="Name">
            {(props) => (
              <input
                className="input"
                {...props}
                value={draft.name}
                onChange={(event) => change({ name: event.target.value })}
              />
            )}
          </Field>
        </div>
        <Field label="For">
          {(props) => (
            <select
              className="input"
              {...props}
              value={draft.command}
              onChange={(event) => change({ command: event.target.value })}
            >
              {COMMANDS.map((command) => (
                <option key={command}>{command}</option>
              ))}
            </select>
          )}
        </Field>
      </div>
      <div className="row">
        {ROLES.map(([role, title]) => (
          <Check
            key={role}
            label={title}
            checked={draft.roles.length === 0 || draft.roles.includes(role)}
            onChange={(isOn) => {
              const all = draft.roles.length === 0 ? ROLES.map(([one]) => one as string) : draft.roles
              change({ roles: isOn ? [...all, role] : all.filter((one) => one !== role) })
            }}
          />
        ))}
        <Check
          label="Restrictive: has to hold besides the others"
          checked={!draft.permissive}
          onChange={(isOn) => change({ permissive: !isOn })}
        />
      </div>
      {draft.command !== 'INSERT' && (
        <Field label="Using" hint="Rows for which this holds are seen and may be written: owner = svc.uid()">
          {(props) => (
            <textarea
              className="input mono"
              rows={3}
              spellCheck={false}
              {...props}
              value={draft.using}
              onChange={(event) => change({ using: event.target.value })}
            />
          )}
        </Field>
      )}
      {!['SELECT', 'DELETE'].includes(draft.command) && (
        <Field label="With check" hint="Has to hold for rows as they are written; empty = as Using.">
          {(props) => (
            <textarea
              className="input mono"
              rows={2}
              spellCheck={false}
              {...props}
              value={draft.check}
              onChange={(event) => change({ check: event.target.value })}
            />
          )}
        </Field>
      )}
      <section className="card">
        <h3>Sample identities</h3>
        <UserBox
          label="Add a user"
          user={null}
          onChange={(person) => setPeople([...people.filter(({ id }) => id !== person.id), person])}
        />
        <div className="row">
          <Badge>a visitor</Badge>
          {people.map((person) => (
            <Badge key={person.id} look="info">
              {person.email || person.id}
            </Badge>
          ))}
        </div>
        {compared && <Effects compared={compared} nameOf={(id) => people.find((one) => one.id === id)?.email || id} />}
      </section>
      {!table.rlsEnabled && (
        <Note warn>Row security of this table is off, so no policy counts until it is switched on.</Note>
      )}
      <details>
        <summary>The SQL that runs</summary>
        <Snippet label="SQL" text={statements} />
      </details>
      <ErrorLine error={error} />
    </Dialog>
  )
}

/** By identity: which rows each operation gains and loses. */
function Effects({ compared, nameOf }: { compared: Compared; nameOf(id: string): string }) {
  const groups = [...Map.groupBy(compared.effects, ({ user }) => user)]
  return (
    <>
      {groups.map(([user, effects]) => {
        const changed = effects.filter(({ gained, lost, error }) => gained + lost > 0 || error)
        return (
          <div key={user ?? ''}>
            <strong className="isolate">{visible(user === null ? 'a visitor' : nameOf(user))}</strong>{' '}
            {changed.length === 0 && <span className="muted">may do the same as before</span>}
            {changed.map(({ operation, gains, loses, gained, lost, error }) => (
              <div key={operation}>
                <code>{operation}</code> {gained > 0 && <Badge look="warn">{`gains ${plural(gained, 'row')}`}</Badge>}{' '}
                {lost > 0 && <Badge look="info">{`loses ${plural(lost, 'row')}`}</Badge>}
                {error && <span className="code-del">{error}</span>}
                <pre className="wrap muted">
                  {[...gains.map((id) => `+ ${id}`), ...loses.map((id) => `− ${id}`)].slice(0, SHOWN).join('\n')}
                </pre>
              </div>
            ))}
          </div>
        )
      })}
      <p className="muted">{`Of the first ${plural(compared.rows, 'row')}, by primary key. Nothing was changed.`}</p>
    </>
  )
}
