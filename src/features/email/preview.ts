import { notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { randomHex, sha256 } from '../../core/secret.ts'
import type { Db } from '../../db/db.ts'
import { sql } from '../../db/sql.ts'
import { type Route, route } from '../../http/route.ts'

const SECONDS = 60

/** Nothing in a mail runs or is fetched: no script, form, frame, font or picture of elsewhere. */
const POLICY =
  "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** Keeps a rendered mail for one look; answers its address, which holds no token. */
export async function keepPreview(db: Db, html: string): Promise<string> {
  const id = randomHex(32)
  await db.run(SYSTEM, [
    sql`delete from svc.mail_previews where expires_at < now()`,
    sql`insert into svc.mail_previews (id_hash, html, expires_at)
      values (${sha256(id)}, ${html.replaceAll('\0', '')}, now() + make_interval(secs => ${SECONDS}))`,
  ])
  return `/api/email/previews/${id}`
}

export const previewRoute = (db: Db): Route =>
  route('GET /api/email/previews/{id}', {
    summary: 'A rendered mail, once and within a minute',
    auth: 'none',
    answers: { 200: { content: 'text/html' } },
    handle: async ({ params }) => {
      const html = await db.fly(
        SYSTEM,
        sql`delete from svc.mail_previews where id_hash = ${sha256(params.id)} returning case when expires_at > now() then html end`,
      )
      if (html === null) throw notFound('preview not found')
      return {
        status: 200,
        headers: {
          'Content-Type': 'text/html; charset=utf-8',
          'Cache-Control': 'no-store',
          'Referrer-Policy': 'no-referrer',
          'Content-Security-Policy': POLICY,
        },
        content: html,
      }
    },
  })
