import { writeFileSync } from 'node:fs'
import { type Context, UsageError } from '../command/command.ts'
import { callAdmin } from '../command/server-api.ts'
import { typesOf } from './database-types.ts'

/** Prints or writes TypeScript types made from the server's OpenAPI document. */
export async function writeTypes(context: Context): Promise<number> {
  const out = context.flag('out')
  if (context.args.length > 0) throw new UsageError('usage: svc types [--out <file>]')
  const text = typesOf(JSON.parse(await callAdmin(context, '/api/openapi.json')))
  if (typeof out !== 'string') context.print(text.trimEnd())
  else {
    writeFileSync(out, text)
    context.print(context.json ? JSON.stringify({ file: out }) : `wrote ${out}`)
  }
  return 0
}
