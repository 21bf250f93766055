import { type Context, UsageError } from './command/command.ts'
import { callAdmin } from './command/server-api.ts'
import { textTable } from './command/text-table.ts'

type Change = {
  at: string
  action: string
  actor: { kind: string; id?: string } | null
  request_id: string | null
  transaction: string
  changes: Record<string, { old?: unknown; new?: unknown }>
}

/** The changes of a row, newest first. */
export async function historyCommand(context: Context): Promise<number> {
  const [table = '', id = ''] = context.args
  const path = `/api/collections/${encodeURIComponent(table)}/${id.split(',').map(encodeURIComponent).join(',')}/history`
  const answer = await callAdmin(context, `${path}?perPage=200`)
  context.print(context.json ? answer : human((JSON.parse(answer) as { items: Change[] }).items))
  return 0
}

const human = (items: readonly Change[]): string =>
  textTable(
    ['at', 'action', 'by', 'request', 'transaction', 'changes'],
    items.map(({ at, action, actor, request_id: request, transaction, changes }) => [
      at,
      action,
      [actor?.kind, actor?.id].filter(Boolean).join(' '),
      request ?? '',
      transaction,
      Object.entries(changes)
        .map(([column, { old, new: now }]) => `${column}: ${JSON.stringify(old)} → ${JSON.stringify(now)}`)
        .join(', '),
    ]),
  )

/** Undoes a request or a transaction. */
export async function undoCommand(context: Context): Promise<number> {
  const [request, transaction] = [context.flag('request'), context.flag('transaction')]
  if ((typeof request === 'string') === (typeof transaction === 'string')) throw new UsageError(context.usage)
  const isDry = context.flag('dry-run') === true
  const answer = await callAdmin(context, '/api/admin/undo', {
    ...(typeof request === 'string' ? { request_id: request } : { transaction }),
    dry_run: isDry,
    force: context.flag('force') === true,
  })
  if (context.json) context.print(answer)
  else {
    const { undone } = JSON.parse(answer) as { undone: { table: string; key: unknown; action: string }[] }
    for (const { table, key, action } of undone) context.print(`${action} ${table} ${JSON.stringify(key)}`)
    context.print(
      `${undone.length} ${undone.length === 1 ? 'change' : 'changes'} ${isDry ? 'would be undone' : 'undone'}`,
    )
  }
  return 0
}
