import { useState } from 'react'
import { fullName, type Policy, quoteName, quoteText, schemaChanged, type Table } from '../../api/schema.ts'
import { sql } from '../../api/sql.ts'
import { UserBox } from '../../app/view-as-dialog.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { plural, text } from '../../parts/format.ts'
import { toast } from '../../parts/toast.tsx'
import { Badge, Button, Check, ErrorLine, Field, Note, Snippet } from '../../parts/ui.tsx'
import { download } from '../table/rows/export.tsx'
import { type Draft, draftOf, readable, statementsOf, withDraft } from './policy-sql.ts'

type Person = { id: string; email: string }
type Effect = { label: string; gains: number; loses: number; rows: string[] }

const COMMANDS = ['ALL', 'SELECT', 'INSERT', 'UPDATE', 'DELETE']
const ROLES = [
  ['svc_authenticated', 'users and keys'],
  ['svc_anon', 'visitors'],
] as const
const LIMIT = 10_000

/** Rows that a sample identity gains and loses. Both sets of policies are evaluated as expressions: no DDL, no lock. */
async function effectOf(table: Table, person: Person | null, before: string, after: string): Promise<Effect> {
  const id = quoteText(person?.id ?? '')
  const key =
    table.primaryKey.length > 0
      ? table.primaryKey.map((name) => `t.${quoteName(name)}::text`).join(` || ',' || `)
      : 't.ctid::text'
  const name = quoteName(table.name)
  const query = `
select set_config('svc.user_id', ${id}, true), set_config('svc.user_email', ${quoteText(person?.email ?? '')}, true), set_config('svc.aal', ${person ? "'aal1'" : "''"}, true);
with t as materialized (select ${name}.*, (${before}) is true as svc_before, (${after}) is true as svc_after from ${fullName(table)} as ${name} limit ${LIMIT})
select ${key}, svc_before, svc_after from t where svc_before <> svc_after`
  const { rows } = await sql(query.replaceAll('t.ctid::text', "''"), { read_only: true })
  return {
    label: person ? person.email || person.id : 'a visitor',
    gains: rows.filter(([, was]) => was === false).length,
    loses: rows.filter(([, was]) => was === true).length,
    rows: rows.slice(0, 8).map(([row, was]) => `${was ? '−' : '+'} ${text(row)}`),
  }
}

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
  const [effects, setEffects] = useState<Effect[] | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const change = (part: Partial<Draft>): void => {
    setDraft({ ...draft, ...part })
    setEffects(null)
  }
  const current = table.rlsPolicies ?? []
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
      const next = withDraft(current, draft, policy.name)
      const roles = [...people.map((person) => [person, 'svc_authenticated'] as const), [null, 'svc_anon'] as const]
      const before = (role: string): string => (table.rlsEnabled ? readable(current, role) : 'true')
      setEffects(
        await Promise.all(roles.map(([person, role]) => effectOf(table, person, before(role), readable(next, role)))),
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
        {effects?.map((effect) => (
          <div key={effect.label}>
            <strong>{effect.label}</strong>{' '}
            {effect.gains === 0 && effect.loses === 0 ? (
              <span className="muted">reads the same rows as before</span>
            ) : null}
            {effect.gains > 0 && <Badge look="warn">{`gains ${plural(effect.gains, 'row')}`}</Badge>}{' '}
            {effect.loses > 0 && <Badge look="info">{`loses ${plural(effect.loses, 'row')}`}</Badge>}
            {effect.rows.length > 0 && <pre className="wrap muted">{effect.rows.join('\n')}</pre>}
          </div>
        ))}
        {effects && <p className="muted">{`Of the first ${LIMIT.toLocaleString('en')} rows.`}</p>}
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
