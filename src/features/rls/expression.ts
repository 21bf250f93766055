import { badRequest } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { databaseMessage, isSyntaxError } from '../../db/pg-errors.ts'
import { parseExpression } from './sql.ts'

/** Semicolons, comments and NUL are refused, even inside quotes. */
const FORBIDDEN = /;|--|\/\*|\*\/|\0/

/**
 * A policy's expression is the operator's own SQL inside of our parentheses, which it must not close. PostgreSQL reports all
 * other errors.
 */
function checkExpression(text: string | undefined, clause: 'USING' | 'WITH CHECK'): void {
  if (text !== undefined && (FORBIDDEN.test(text) || text.trim() === '' || !isBalanced(text))) throw invalid(clause)
}

/** Also as PostgreSQL reads it. Names cannot be resolved without the table; that is left to who uses it. */
export async function requireExpression(
  db: Db,
  admin: Identity,
  text: string | undefined,
  clause: 'USING' | 'WITH CHECK',
): Promise<void> {
  checkExpression(text, clause)
  if (text === undefined) return
  await db.run(admin, parseExpression(text)).catch((error: unknown) => {
    const message = databaseMessage(error)
    if (message === undefined) throw error
    if (isSyntaxError(error)) throw invalid(clause, message)
  })
}

/** `why` in PostgreSQL's words, where it said something. */
const invalid = (clause: 'USING' | 'WITH CHECK', why?: string) =>
  badRequest(`invalid ${clause} expression${why === undefined ? '' : `: ${why}`}`, 'sql_error')

/** Quoted text, quoted names and dollar quotes are skipped as PostgreSQL's scanner does (manual, section 4.1). */
const TOKEN =
  /[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$([A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$|[()[\]]|['"]/gs

function isBalanced(text: string): boolean {
  const open: string[] = []
  for (let at = 0; ; ) {
    TOKEN.lastIndex = at
    const found = TOKEN.exec(text)
    if (!found) return open.length === 0
    const [token] = found
    at = TOKEN.lastIndex
    if (token === "'" || token === '"') return false // a quote that nothing closes
    if (token.startsWith('$')) {
      const end = text.indexOf(token, at)
      if (end === -1) return false
      at = end + token.length
    } else if (token === '(' || token === '[') open.push(token)
    else if (token === ')' || token === ']') {
      if (open.pop() !== (token === ')' ? '(' : '[')) return false
    }
  }
}
