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

const applies = (policy: { command: string; roles: readonly string[] }, role: string): boolean =>
  ['ALL', 'SELECT'].includes(policy.command.toUpperCase()) && (policy.roles.length === 0 || policy.roles.includes(role))

/** Which rows a role may read under these policies, as one expression. */
export function readable(policies: readonly Policy[], role: string): string {
  const mine = policies.filter((policy) => applies(policy, role))
  const texts = (isPermissive: boolean): string[] =>
    mine.filter(({ permissive }) => permissive === isPermissive).map(({ usingExpr }) => `(${usingExpr || 'true'})`)
  const permissive = texts(true)
  return [permissive.length > 0 ? `(${permissive.join(' or ')})` : 'false', ...texts(false)].join(' and ')
}

export const withDraft = (policies: readonly Policy[], draft: Draft, replaces: string | undefined): Policy[] => [
  ...policies.filter(({ name }) => name !== replaces),
  {
    name: draft.name,
    command: draft.command,
    permissive: draft.permissive,
    roles: draft.roles,
    usingExpr: draft.using,
    withCheckExpr: draft.check,
  },
]
