import { type Sql, sql } from '../../db/sql.ts'

export type Override = {
  id: string
  templateKey: string
  subjectTemplate: string
  htmlTemplate: string
  enabled: boolean
  createdAt: Date
  updatedAt: Date
}

const columns = sql`id::text as id, template_key as "templateKey", subject_template as "subjectTemplate",
  html_template as "htmlTemplate", enabled, created_at as "createdAt", updated_at as "updatedAt"`

/** A row if the address has an account. */
export const accountOf = (address: string): Sql => sql`select from svc.users where email = ${address}`

export const allOverrides: Sql = sql`select ${columns} from svc.email_templates order by template_key`

export const overrideOf = (key: string): Sql =>
  sql`select ${columns} from svc.email_templates where template_key = ${key}`

export const saveOverride = (key: string, subject: string, html: string): Sql => sql`
  insert into svc.email_templates (template_key, subject_template, html_template) values (${key}, ${subject}, ${html})
  on conflict (template_key) do update
  set subject_template = excluded.subject_template, html_template = excluded.html_template, updated_at = now()
  returning ${columns}`

/** Values for the audit entry, without the HTML, which may be long. */
export const NEW_OVERRIDE = {
  newValues: sql`jsonb_build_object('subjectTemplate', svc_changed."subjectTemplate", 'enabled', svc_changed.enabled)`,
}
export const notedOverride = (key: string): Sql =>
  sql`select subject_template as "subjectTemplate", enabled from svc.email_templates where template_key = ${key}`

export const enableOverride = (key: string, enabled: boolean): Sql =>
  sql`update svc.email_templates set enabled = ${enabled}, updated_at = now() where template_key = ${key}
  returning template_key`

export const deleteOverride = (key: string): Sql =>
  sql`delete from svc.email_templates where template_key = ${key} returning template_key`
