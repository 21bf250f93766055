import { fullName, type Policy, quoteName, type Table } from '../../api/schema.ts'

export type Draft = {
  name: string
  command: string
  permissive: boolean
  roles: string[]
  using: string
  check: string
}

export const draftOf = (policy: Partial<Policy>): Draft => ({
  name: policy.name ?? 'new_policy',
  command: policy.command ?? 'ALL',
  permissive: policy.permissive ?? true,
  roles: policy.roles ?? ['svc_authenticated'],
  using: policy.usingExpr ?? '',
  check: policy.withCheckExpr ?? '',
})

/** What saving runs, in one transaction. */
export function statementsOf(table: Table, draft: Draft, replaces: string | undefined): string {
  const target = fullName(table)
  const create = [
    `create policy ${quoteName(draft.name)} on ${target}`,
    draft.permissive ? '' : '  as restrictive',
    `  for ${draft.command.toLowerCase()}`,
    draft.roles.length > 0 ? `  to ${draft.roles.map(quoteName).join(', ')}` : '',
    draft.using && draft.command !== 'INSERT' ? `  using (${draft.using})` : '',
    draft.check && !['SELECT', 'DELETE'].includes(draft.command) ? `  with check (${draft.check})` : '',
  ].filter(Boolean)
  return [...(replaces === undefined ? [] : [`drop policy ${quoteName(replaces)} on ${target}`]), create.join('\n')]
    .join(';\n')
    .concat(';')
}
