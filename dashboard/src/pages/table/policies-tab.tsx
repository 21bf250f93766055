import { useState } from 'react'
import { post, remove } from '../../api/client.ts'
import { useAction } from '../../api/hooks.ts'
import { fullName, type Policy, schemaChanged, type Table } from '../../api/schema.ts'
import { sql } from '../../api/sql.ts'
import { confirm } from '../../parts/dialog.tsx'
import { visible } from '../../parts/format.ts'
import { MenuButton } from '../../parts/menu.tsx'
import { Badge, Button, Empty, Note } from '../../parts/ui.tsx'
import { Workbench } from '../policies/workbench.tsx'
import { POLICIES, policySql } from '../tables/draft.ts'

export function PoliciesTab({ name, table }: { name: string; table: Table }) {
  const [edited, setEdited] = useState<Partial<Policy> | null>(null)
  const path = `/api/admin/rls/${encodeURIComponent(name)}`
  const onSuccess = async (work: Promise<unknown>): Promise<void> => {
    await work
    await schemaChanged()
  }
  const toggle = useAction((isOn: boolean) => onSuccess(post(`${path}/${isOn ? 'enable' : 'disable'}`)), {
    done: (_, isOn) => `Row security is ${isOn ? 'on' : 'off'}`,
  })
  const drop = useAction((policy: string) => onSuccess(remove(`${path}/${encodeURIComponent(policy)}`)), {
    done: 'The policy is gone',
  })
  const ready = useAction((statements: string[]) => onSuccess(sql(statements.join(';\n'))), {
    done: 'The policy is in force',
  })
  const policies = table.rlsPolicies ?? []
  async function switchOff(): Promise<void> {
    const isYes = await confirm({
      title: `Switch row security of ${name} off?`,
      text: 'Everybody with a privilege on the table then sees and changes every row, visitors too.',
      name,
      yes: 'Switch off',
    })
    if (isYes) toggle.run(false)
  }
  return (
    <>
      <div className="row">
        {table.rlsEnabled && <Badge look="ok">Row security is on</Badge>}
        <div className="grow">
          {!table.rlsEnabled && (
            <Note warn>
              Row security is off: everybody with a privilege on this table sees and changes every row.{' '}
              <Button look="small primary" onClick={() => toggle.run(true)} busy={toggle.busy}>
                Switch it on
              </Button>
            </Note>
          )}
        </div>
        {table.rlsEnabled && (
          <Button look="danger" onClick={() => void switchOff()}>
            Switch off
          </Button>
        )}
        <MenuButton
          label="Ready policies"
          items={POLICIES.filter(({ name: id }) => id !== 'nobody').map(({ name: id, title }) => ({
            label: title,
            run: async () => {
              const statements = policySql(id, fullName(table))
              const isYes = await confirm({
                title,
                text: <pre className="wrap">{statements.join(';\n')}</pre>,
                yes: 'Create policy',
                danger: false,
              })
              if (isYes) ready.run(statements)
            },
          }))}
        >
          Ready policies
        </MenuButton>
        <Button look="primary" icon="plus" onClick={() => setEdited({})}>
          New policy
        </Button>
      </div>
      {policies.length === 0 && table.rlsEnabled && (
        <Empty title="No policy: nobody but you sees a row" icon="shield">
          <p>Add a ready policy, or write one.</p>
        </Empty>
      )}
      {policies.map((policy) => (
        <section className="card" key={policy.name}>
          <div className="card-head">
            <h2 className="isolate">{visible(policy.name)}</h2>
            <Badge look="info">{policy.command}</Badge>
            {!policy.permissive && <Badge look="warn">restrictive</Badge>}
            <span className="muted">to {policy.roles.length === 0 ? 'everybody' : policy.roles.join(', ')}</span>
            <span className="row">
              <Button look="quiet small" icon="edit" onClick={() => setEdited(policy)}>
                Edit
              </Button>
              <Button
                look="quiet small danger"
                icon="trash"
                onClick={async () => {
                  const isYes = await confirm({
                    title: `Drop policy ${policy.name}?`,
                    text: 'It counts no more at once.',
                    yes: 'Drop policy',
                  })
                  if (isYes) drop.run(policy.name)
                }}
              >
                Drop
              </Button>
            </span>
          </div>
          {policy.usingExpr && (
            <p>
              <span className="muted">using</span> <code>{visible(policy.usingExpr)}</code>
            </p>
          )}
          {policy.withCheckExpr && (
            <p>
              <span className="muted">with check</span> <code>{visible(policy.withCheckExpr)}</code>
            </p>
          )}
        </section>
      ))}
      {edited && <Workbench name={name} table={table} policy={edited} onClose={() => setEdited(null)} />}
    </>
  )
}
