import { fullName, quoteName, quoteText, type Schema } from '../../api/schema.ts'

export type DraftColumn = {
  id: number
  name: string
  type: string
  defaultTo: string
  required: boolean
  unique: boolean
  /** The table of which it is a row, or empty. */
  references: string
}

export type Draft = {
  schema: string
  name: string
  key: 'identity' | 'uuid'
  columns: readonly DraftColumn[]
  policy: 'owner' | 'organisation' | 'everybody' | 'nobody' | 'off'
  live: boolean
}

export const POLICIES: readonly { name: Draft['policy']; title: string; hint: string }[] = [
  { name: 'owner', title: 'Owner’s rows', hint: 'users see and change the rows they made' },
  { name: 'organisation', title: 'Members of an organisation', hint: 'members share the rows of theirs' },
  { name: 'everybody', title: 'Everybody reads', hint: 'visitors too; writing is yours alone' },
  { name: 'nobody', title: 'Nobody', hint: 'closed until you write policies' },
]

const KEYS = {
  identity: 'id bigint generated always as identity primary key',
  uuid: 'id uuid primary key default gen_random_uuid()',
}

function columnSql({ name, type, defaultTo, required, unique, references }: DraftColumn, schema: Schema): string {
  const target = schema.tables.get(references)
  const targetKey = target?.primaryKey[0] ?? 'id'
  const targetType = target?.columns.find((column) => column.name === targetKey)?.type ?? 'uuid'
  const targetName = target ? fullName(target) : 'svc.users'
  return [
    quoteName(name),
    references ? targetType : type,
    required && 'not null',
    unique && 'unique',
    defaultTo && `default ${defaultTo}`,
    references && `references ${targetName} (${quoteName(targetKey)})`,
  ]
    .filter(Boolean)
    .join(' ')
}

/** What is run, as it is shown. */
export function sqlOf(draft: Draft, schema: Schema): string {
  const table = fullName({ schema: draft.schema, name: draft.name || 'new_table' })
  const columns = [
    KEYS[draft.key],
    ...draft.columns.filter(({ name }) => name !== '').map((column) => columnSql(column, schema)),
  ]
  const has = (name: string): boolean => draft.columns.some((column) => column.name === name)
  if (draft.policy === 'owner' && !has('owner')) {
    columns.push('owner uuid not null default svc.uid() references svc.users (id) on delete cascade')
  }
  if (draft.policy === 'organisation' && !has('org')) columns.push('org uuid not null')
  const statements = [`create table ${table} (\n  ${columns.join(',\n  ')}\n)`]
  if (draft.policy === 'owner') statements.push(`create index on ${table} (owner)`)
  if (draft.policy === 'organisation') statements.push(`create index on ${table} (org)`)
  for (const { references, name } of draft.columns) {
    if (references && name) statements.push(`create index on ${table} (${quoteName(name)})`)
  }
  statements.push(`alter table ${table} enable row level security`, ...policySql(draft.policy, table))
  if (draft.live) statements.push(`select svc.watch(${quoteText(table)})`)
  return `${statements.join(';\n')};`
}

export function policySql(policy: Draft['policy'], table: string): string[] {
  if (policy === 'owner') {
    return [
      `create policy owner_rows on ${table} to svc_authenticated\n  using (owner = svc.uid()) with check (owner = svc.uid())`,
    ]
  }
  if (policy === 'organisation') {
    return [
      `create policy members on ${table} to svc_authenticated\n  using (org = any (svc.org_ids())) with check (org = any (svc.org_ids()))`,
    ]
  }
  return policy === 'everybody' ? [`create policy everybody_reads on ${table} for select using (true)`] : []
}
