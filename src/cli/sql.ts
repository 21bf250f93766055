import { text as readAll } from 'node:stream/consumers'
import type { Context } from './command/command.ts'
import { callAdmin } from './command/server-api.ts'
import { textTable } from './command/text-table.ts'

type Result = { columns: string[]; rows: unknown[][]; rowCount: number; durationMs: number; message?: string }

export async function sqlCommand(context: Context): Promise<number> {
  const [query] = context.args
  const answer = await callAdmin(context, '/api/admin/sql', {
    query: query === '-' ? await readAll(process.stdin) : query,
  })
  context.print(context.json ? answer : human(JSON.parse(digitsKept(answer)) as Result))
  return 0
}

function human({ columns, rows, rowCount, message }: Result): string {
  const count = `(${rowCount} ${rowCount === 1 ? 'row' : 'rows'})`
  const cells = rows.map((row) => row.map(cell))
  const table = columns.length > 0 ? [textTable(columns, cells)] : []
  return [...table, count, ...(message === undefined ? [] : [message])].join('\n')
}

const cell = (value: unknown): string => {
  if (value === null) return 'NULL'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Quotes numbers that a double cannot hold, so that JSON.parse keeps all digits. */
const digitsKept = (json: string): string =>
  json.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]{15,}/g, (part) => (part.startsWith('"') ? part : JSON.stringify(part)))
