import { type Context, UsageError } from './command/command.ts'
import { callAdmin } from './command/server-api.ts'

export async function rotateSecrets(context: Context): Promise<number> {
  const [what] = context.args
  if (what !== 'signing-key') throw new UsageError(context.usage)
  const text = await callAdmin(context, '/api/admin/secrets/signing-key', {
    compromised: context.flag('compromised') === true,
  })
  context.print(context.json ? text : (JSON.parse(text) as { message: string }).message)
  return 0
}
