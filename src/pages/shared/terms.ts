import { grantOf, hasScope, opensData } from '../../core/scope.ts'

/** What an application asks for. */
export type RequestedTerms = { scope: string; allowed_tables?: string[]; resource?: string }

export const readsOnly = (scope: string): boolean => grantOf(scope, [], null).scope === 'readonly'

/** A scope in plain words, one line each. */
export function termsInWords({ scope, allowed_tables: tables = [], resource }: RequestedTerms): string[] {
  const where = tables.length > 0 ? `in these tables only: ${tables.join(', ')}` : 'in all tables that you can reach'
  if (resource !== undefined) {
    return [
      readsOnly(scope) ? 'read data as you, and write nothing' : 'read and change data as you, as an agent',
      where,
      'not reach your files, and nothing but its own tools',
      'until the time below, or until you end the access on your account page',
    ]
  }
  return [...aboutUser(scope), ...(opensData(scope) ? aboutData(scope, tables, where) : ['not reach your data'])]
}

function aboutUser(scope: string): string[] {
  return [
    ...(hasScope(scope, 'openid') ? ['know that it is you who signs in'] : []),
    ...(hasScope(scope, 'profile') ? ['see your name and profile'] : []),
    ...(hasScope(scope, 'email') ? ['see your email address'] : []),
    ...(hasScope(scope, 'openid') && hasScope(scope, 'offline_access') ? ['go on while you are away'] : []),
  ]
}

function aboutData(scope: string, tables: readonly string[], where: string): string[] {
  const { scope: data, files } = grantOf(scope, tables, null)
  const actions = [...(files.read ? ['read'] : []), ...(files.write ? ['upload, replace and delete'] : [])]
  return [
    data === 'readonly' ? 'read data as you' : 'read and change data as you',
    where,
    actions.length > 0 ? `${actions.join(', ')} files as you` : 'not reach your files',
    'until you change your password or end the access on your account page',
  ]
}
