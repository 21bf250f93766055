import type { Context } from './command/command.ts'
import { callAdmin } from './command/server-api.ts'

type Item = { kind: string; table: string; what: string; sql: string; gain?: { before: number; after: number } }

/** The advisor's items, as SQL with the reason above each. */
export async function adviseCommand(context: Context): Promise<number> {
  const answer = await callAdmin(context, '/api/admin/advice')
  if (context.json) {
    context.print(answer)
    return 0
  }
  const { items } = JSON.parse(answer) as { items: Item[] }
  if (items.length === 0) context.print('nothing to advise')
  for (const { kind, table, what, sql, gain } of items) {
    const cost = gain ? ` (cost ${gain.before} → ${gain.after})` : ''
    context.print(`-- ${kind}${table === '' ? '' : ` ${table}`}: ${what}${cost}\n${sql};\n`)
  }
  return 0
}
