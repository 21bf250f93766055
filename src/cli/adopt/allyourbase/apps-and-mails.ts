import type pg from 'pg'
import { reasonOf } from '../../../core/errors.ts'
import { checkTemplate, templateKey } from '../../../features/email/template.ts'
import { readRows } from '../database/source.ts'
import type { Note } from '../plan.ts'

type SourceApp = {
  id: string
  name: string
  description: string | null
  owner: string
  rps: number | null
  window: number | null
}
type SourceTemplate = { key: string; subject: string; html: string; isEnabled: boolean }
export type AppsAndMails = { apps: SourceApp[]; templates: SourceTemplate[] }

/** Apps, whose keys do not come along, and the mails that were written anew. */
export async function readAppsAndMails(
  from: pg.Client,
  has: (table: string) => Promise<boolean>,
  notes: Note[],
): Promise<AppsAndMails> {
  const apps = (await has('_ayb_apps'))
    ? await readRows<SourceApp>(
        from,
        `select id, name, j ->> 'description' as description, owner_user_id as owner, (j ->> 'rate_limit_rps')::int as rps,
           (j ->> 'rate_limit_window_seconds')::int as window from public._ayb_apps a cross join lateral (select to_jsonb(a) as j) c order by id`,
      )
    : []
  if (apps.length > 0)
    notes.push({ level: 'changed', what: `${apps.length} apps`, why: 'come without their keys: make new ones' })
  const written = (await has('_ayb_email_templates'))
    ? await readRows<SourceTemplate>(
        from,
        `select template_key as key, subject_template as subject, html_template as html, enabled as "isEnabled" from public._ayb_email_templates order by 1`,
      )
    : []
  const templates = written.filter(({ key, subject, html }) => {
    try {
      templateKey(key)
      checkTemplate({ subject, html })
      return true
    } catch (error) {
      notes.push({ level: 'skipped', what: `mail template ${key}`, why: reasonOf(error) })
      return false
    }
  })
  if (templates.length > 0)
    notes.push({
      level: 'changed',
      what: `${templates.length} mail templates`,
      why: 'come along: look at each with its preview, because names of values may differ',
    })
  return { apps, templates }
}

/** What is here already stays as it is. Within a transaction, after the people. */
export async function bringAppsAndMails(client: pg.Client, { apps, templates }: AppsAndMails): Promise<void> {
  await client.query(
    `insert into svc.apps (id, name, description, owner_user_id, rate_limit_rps, rate_limit_window_seconds)
     select a.id, a.name, coalesce(a.description, ''), u.id, greatest(coalesce(a.rps, 0), 0), greatest(coalesce(a.window, 0), 0)
     from pg_catalog.json_to_recordset($1::json) a (id uuid, name text, description text, owner uuid, rps int, "window" int)
     left join svc.users u on u.id = a.owner on conflict do nothing`,
    [JSON.stringify(apps)],
  )
  await client.query(
    `insert into svc.email_templates (template_key, subject_template, html_template, enabled)
     select t.key, t.subject, t.html, t."isEnabled" from pg_catalog.json_to_recordset($1::json) t (key text, subject text, html text, "isEnabled" boolean)
     on conflict do nothing`,
    [JSON.stringify(templates)],
  )
}
