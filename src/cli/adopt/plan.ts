export type Note = { level: 'closed' | 'changed' | 'skipped' | 'warning'; what: string; why: string }
export type PlannedTable = {
  name: string
  rows: number
  from: string
  columns: { name: string; type: string; from: string }[]
}
export type PlannedPolicy = {
  table: string
  name: string
  command: 'all' | 'select' | 'insert' | 'update' | 'delete'
  using: string | null
  check: string | null
  from: string
}

/** Takes away the notes that come after this: for work that is done again. */
export function forgetLater(notes: Note[]): () => void {
  const { length } = notes
  return () => {
    notes.length = length
  }
}

/** What `--json` prints. */
export type Plan = {
  source: string
  apply: boolean
  tables: PlannedTable[]
  policies: PlannedPolicy[]
  users: { total: number; by_credential: Record<string, number> }
  files: { count: number; bytes: number }
  notes: Note[]
  done?: Record<string, number>
}

const SHOWN = 200

/** Rules may hold anything; control characters would reach the terminal. */
const line = (text: string): string => text.replaceAll(/[\p{Cc}\s]+/gu, ' ').slice(0, SHOWN)

export function printPlan(plan: Plan, print: (line: string) => void): void {
  print(`from ${line(plan.source)}`)
  for (const { name, rows, columns } of plan.tables) {
    print(`\ntable ${line(name)}: ${rows} rows`)
    for (const column of columns) print(`  ${line(column.name)}  ${column.type}  (${line(column.from)})`)
    for (const policy of plan.policies.filter(({ table }) => table === name)) {
      print(`  policy ${policy.name} for ${policy.command}: ${line(policy.from) || 'everybody'}`)
      if (policy.using !== null) print(`    using ${line(policy.using)}`)
      if (policy.check !== null) print(`    with check ${line(policy.check)}`)
    }
  }
  const kinds = Object.entries(plan.users.by_credential).map(([kind, count]) => `${count} ${kind}`)
  print(`\nusers: ${plan.users.total}${kinds.length > 0 ? ` (${kinds.join(', ')})` : ''}`)
  print(`files: ${plan.files.count} (${plan.files.bytes} bytes)`)
  if (plan.notes.length > 0) print('\nto look at:')
  for (const { level, what, why } of plan.notes) print(`  ${level}: ${line(what)}: ${line(why)}`)
  if (plan.done) {
    print(
      `\ndone: ${Object.entries(plan.done)
        .map(([what, count]) => `${count} ${what}`)
        .join(', ')}`,
    )
  } else if (!plan.apply) print('\nnothing was changed; --apply does it')
}
