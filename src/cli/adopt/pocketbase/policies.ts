import type { Note, PlannedPolicy } from '../plan.ts'
import type { Collection } from './collections.ts'
import { RuleError } from './rule-parser.ts'
import { type Compiled, compileRule, literal, quoted, type World } from './rule-sql.ts'
import { HELPERS } from './sql-functions.ts'
import type { Statement, TargetColumn } from './statements.ts'

type Command = PlannedPolicy['command']
type Access = { statements: Statement[]; policies: PlannedPolicy[]; notes: Note[] }

const BOTH = 'svc_anon, svc_authenticated'

/** Grants and policies of a table, and the policy of its files. */
export function accessOf(
  collection: Collection,
  columns: readonly TargetColumn[],
  world: World,
  bucket: string | undefined,
): Access {
  const { name, id, rules } = collection
  const table = `public.${quoted(name)}`
  const notes: Note[] = []
  const policies: PlannedPolicy[] = []
  const functions: string[] = []
  const isProfile = collection.type === 'auth'

  /** SQL that holds where the rule does, undefined where it cannot be said. */
  const said = (rule: string, command: Command): { using: string | null; check: string | null } | undefined => {
    if (rule === '')
      return {
        using: command === 'insert' ? null : 'true',
        check: command === 'insert' || command === 'update' ? 'true' : null,
      }
    const inline = quoted(name)
    const compile = (row: string, body: string | undefined): Compiled =>
      compileRule(rule, collection, world, { row, body, isUpdate: command === 'update' })
    const mayHaveBody = command === 'insert' || command === 'update'
    try {
      const plain = compile(inline, mayHaveBody ? inline : undefined)
      const inFunction = (body: string): string => {
        const called = `${HELPERS}.${quoted(`rule_${id}_${command}`)}`
        const kept = body.includes('$rule$') ? literal(body) : `$rule$ ${body} $rule$`
        functions.push(
          `create or replace function ${called}(svc_row ${table}) returns boolean language sql stable parallel safe security definer set search_path = pg_catalog, pg_temp as ${kept}`,
        )
        return `${called}(${inline}.*)`
      }
      if (command === 'update' && plain.needsBody) {
        notes.push({
          level: 'changed',
          what: `${name}.updateRule`,
          why: 'a field that is not sent counts with the value it has',
        })
        // The statement's snapshot still has the row as it was.
        const old = compile('svc_old', '(svc_row)')
        return {
          using: 'true',
          check: inFunction(
            `select exists (select from ${table} svc_old where svc_old.id = (svc_row).id and ${old.sql})`,
          ),
        }
      }
      if (command === 'insert' && plain.needsBody) {
        notes.push({
          level: 'changed',
          what: `${name}.createRule`,
          why: 'a field that is not sent counts with its default',
        })
      }
      const sql = plain.needsFunction
        ? inFunction(`select ${compile('(svc_row)', mayHaveBody ? '(svc_row)' : undefined).sql}`)
        : plain.sql
      if (command === 'insert') return { using: null, check: sql }
      return { using: sql, check: command === 'update' ? 'true' : null }
    } catch (error) {
      if (!(error instanceof RuleError)) throw error
      notes.push({ level: 'closed', what: `${name}.${command}`, why: `${error.message}: ${rule}` })
      return undefined
    }
  }

  const add = (command: Command, rule: string | null): void => {
    if (rule === null) return
    const expression = said(rule, command)
    if (!expression) return
    if (isOpenToVisitors(rule)) {
      notes.push({
        level: 'warning',
        what: `${name}.${command}`,
        why: `holds for visitors where the field is empty, as in PocketBase: ${rule}`,
      })
    }
    policies.push({ table: name, name: `pocketbase_${command}`, command, ...expression, from: rule })
  }

  const { listRule, viewRule } = rules
  if (listRule !== viewRule) {
    notes.push({
      level: 'changed',
      what: `${name}.listRule, ${name}.viewRule`,
      why: 'they differ, and reading has one policy here: both must hold',
    })
  }
  add('select', bothOf(listRule, viewRule))
  if (isProfile) {
    notes.push({
      level: 'changed',
      what: `${name}: create and delete`,
      why: 'accounts are made by registering and deleted as accounts; the profile follows',
    })
    add('update', rules.updateRule)
  } else {
    add('insert', rules.createRule)
    add('update', rules.updateRule)
    add('delete', rules.deleteRule)
  }
  if (!policies.some(({ command }) => command === 'select') && policies.some(({ command }) => command !== 'insert')) {
    notes.push({
      level: 'changed',
      what: name,
      why: 'rows that a caller cannot read cannot be changed or deleted here',
    })
  }
  const grants = grantsOf(table, columns)
  return {
    policies,
    notes,
    statements: [
      ...[...functions, ...grants, ...policies.map((policy) => policySql(table, policy))].map((sql) => ({
        by: 'owner' as const,
        collection: name,
        sql,
      })),
      ...(bucket === undefined ? [] : bucketOf(collection, bucket, listRule === '' && viewRule === '', notes)),
    ],
  }
}

export const bothOf = (list: string | null, view: string | null): string | null => {
  if (list === null || view === null) return null
  if (list === view || list === '') return view
  return view === '' ? list : `(${list}) && (${view})`
}

/** `owner = @request.auth.id` without a word about visitors. */
const isOpenToVisitors = (rule: string): boolean =>
  /(?:[^!<>]=\s*@request\.auth\.id)|(?:@request\.auth\.id\s*\??=)/.test(rule) &&
  !/@request\.auth\.id\s*\??!=\s*(?:""|''|null)/.test(rule)

const policySql = (table: string, { name, command, using, check }: PlannedPolicy): string =>
  `create policy ${quoted(name)} on ${table} for ${command} to ${BOTH}${using === null ? '' : ` using (${using})`}${check === null ? '' : ` with check (${check})`}`

/** Hidden fields are not read, and ids and accounts not changed. */
function grantsOf(table: string, columns: readonly TargetColumn[]): string[] {
  const names = (wanted: (column: TargetColumn) => boolean): string =>
    columns
      .filter(wanted)
      .map(({ name }) => quoted(name))
      .join(', ')
  const hasHidden = columns.some(({ field }) => field?.hidden)
  const written = ({ name, field }: TargetColumn): boolean =>
    name !== 'account_id' && !field?.hidden && field?.type !== 'autodate'
  const changed = names((column) => column.name !== 'id' && written(column))
  return [
    `grant select${hasHidden ? ` (${names(({ field }) => !field?.hidden)})` : ''} on ${table} to ${BOTH}`,
    `grant insert (${names(written)}), delete on ${table} to ${BOTH}`,
    ...(changed === '' ? [] : [`grant update (${changed}) on ${table} to ${BOTH}`]),
  ]
}

/** Files are read by those who can read the record; of a collection open to everybody, by everybody. */
function bucketOf({ name, fields }: Collection, bucket: string, isOpen: boolean, notes: Note[]): Statement[] {
  const isPublic = isOpen && !fields.some(({ isProtected }) => isProtected)
  if (!isPublic)
    notes.push({
      level: 'changed',
      what: `files of ${name}`,
      why: 'an address alone opens none: callers who can read the record can read its files',
    })
  const sql = [
    `insert into svc.storage_buckets (name, access) values (${literal(bucket)}, '${isPublic ? 'public' : 'policies'}')`,
    ...(isPublic
      ? []
      : [
          `create policy ${quoted(`pocketbase_${bucket}`.slice(0, 63))} on svc.objects for select to ${BOTH} using (bucket = ${literal(bucket)} and exists (select from public.${quoted(name)} p where p.id = (svc.folder(objects.name))[1]))`,
        ]),
  ]
  return sql.map((text) => ({ by: 'server', collection: name, sql: text }))
}
