import { badRequest } from '../core/errors.ts'
import type { Call, JsonText, Reply, Route } from './route.ts'

/** GET routes that write: they end a sign-in. */
const WRITES_BY_GET = /^\/api\/auth\/(oauth|authorize)\b/

/** Refuses a `Dry-Run` header that the route cannot honour; a read ignores it. */
export function checkDryRun({ method, path, dryRun }: Route, header: string): void {
  if (method === 'GET' && !WRITES_BY_GET.test(path)) return
  if (header !== 'true') throw badRequest('Dry-Run must be true')
  if (dryRun === undefined) throw badRequest('dry run is not possible here')
}

/** On routes that can; the pipeline has checked the value. */
export const isDryRun = ({ headers }: Call): boolean => headers['dry-run'] !== undefined

/** `told`: the members that say what would have changed, as JSON text. */
export function dryRunReply({ status, json, body }: Reply, told: string): Reply {
  const answer = json === undefined ? (JSON.stringify(body) ?? 'null') : json
  const [before, after] = [`{"dry_run":{"status":${status},"answer":`, `,${told}}}`]
  return { status: 200, json: around(before, answer, after) }
}

function around(before: string, text: JsonText, after: string): JsonText {
  if (typeof text === 'string') return before + text + after
  const pieces = Array.isArray(text) ? (text as readonly Buffer[]) : [text as Buffer]
  return [Buffer.from(before), ...pieces, Buffer.from(after)]
}
