import { isEmail } from '../../core/contact/email-address.ts'
import { badRequest } from '../../core/errors.ts'
import * as t from '../../core/json-type.ts'
import type { Observe } from '../../core/observe.ts'
import { auditedEffect } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import type { Queue } from '../../db/queue/queue.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { json, noContentAfter, type Route, route } from '../../http/route.ts'
import { logMailTransport } from './log-transport.ts'
import { createMailer } from './mailer.ts'
import { plainTextOf } from './plain-text.ts'
import { keepPreview, previewRoute } from './preview.ts'
import { smtpTransport } from './smtp-transport.ts'
import { renderTemplate, type TemplateSource, templateKey } from './template.ts'
import { createTemplates } from './templates.ts'
import { behind, type Mail, type MailConfig, type MailTransport } from './transport.ts'
import { webhookMailTransport } from './webhook-transport.ts'

/** Larger than any template, so that an oversized template gets its own error. */
const BODY_LIMIT = 12 * 1024 * 1024

const source = { subjectTemplate: t.string(), htmlTemplate: t.string() }
const origin = t.oneOf(['custom', 'builtin'])
const listed = t.object({
  templateKey: t.string(),
  source: origin,
  subjectTemplate: t.string(),
  enabled: t.boolean(),
  updatedAt: t.optional(t.time()),
})
const effective = t.object({
  templateKey: t.string(),
  source: origin,
  ...source,
  enabled: t.boolean(),
  variables: t.array(t.string()),
  updatedAt: t.optional(t.time()),
})
const saved = t.object({
  id: t.uuid(),
  templateKey: t.string(),
  ...source,
  enabled: t.boolean(),
  createdAt: t.time(),
  updatedAt: t.time(),
})
const variables = t.optional(t.record(t.any(), { description: 'values for the placeholders' }))
const ofKey = { auth: 'admin', params: { key: t.string({ description: 'such as `auth.password_reset`' }) } } as const

export type Email = {
  routes: Route[]
  /** A statement for the caller's own flight; call `wakeMail` once it committed. */
  queueMail: ReturnType<typeof createMailer>['queueMail']
  wakeMail(): void
  start(): void
  stop(): void
}

export function createEmail(deps: {
  db: Db
  queue: Queue
  outgoing: Outgoing
  observe: Observe
  config: MailConfig
  appName: string
  /** Sends in place of the transport, unless it resolves to false. */
  sendByHook?: ((mail: Mail) => Promise<boolean>) | undefined
}): Email {
  const { db, queue, observe, config, appName } = deps
  const transport = behind(deps.sendByHook, transportOf(deps))
  const templates = createTemplates({ db, observe })
  const mailer = createMailer({ db, queue, templates, transport, observe, appName })

  const routes = [
    previewRoute(db),
    route('GET /api/admin/email/templates', {
      summary: 'Mail templates: built-in ones and overrides',
      leastRole: 'viewer',
      auth: 'admin',
      answers: { 200: t.object({ items: t.array(listed), count: t.integer() }) },
      handle: async () => {
        const items = await templates.list()
        return json(200, { items, count: items.length })
      },
    }),
    route('GET /api/admin/email/templates/{key}', {
      summary: 'The template a mail of this key is made from now',
      leastRole: 'viewer',
      ...ofKey,
      answers: { 200: effective },
      handle: async ({ params }) => json(200, await templates.effective(templateKey(params.key))),
    }),
    route('PUT /api/admin/email/templates/{key}', {
      summary: 'Write a template over a built-in one, or beside them',
      leastRole: 'operator',
      ...ofKey,
      audit: 'email_template.update',
      bodyLimit: BODY_LIMIT,
      body: t.object(source),
      answers: { 200: saved },
      handle: async (call) => json(200, await templates.save(templateKey(call.params.key), sourceOf(call.body), call)),
    }),
    route('PATCH /api/admin/email/templates/{key}', {
      summary: 'Switch an override on or off',
      leastRole: 'operator',
      ...ofKey,
      audit: 'email_template.toggle',
      body: t.object({ enabled: t.optional(t.boolean({ description: 'required' })) }),
      answers: { 200: t.object({ templateKey: t.string(), enabled: t.boolean() }) },
      handle: async (call) => {
        const { enabled } = call.body
        const key = templateKey(call.params.key)
        if (enabled === undefined) throw badRequest('enabled field is required')
        await templates.enable(key, enabled, call)
        return json(200, { templateKey: key, enabled })
      },
    }),
    route('DELETE /api/admin/email/templates/{key}', {
      summary: 'Remove an override',
      leastRole: 'operator',
      ...ofKey,
      audit: 'email_template.delete',
      answers: { 204: null },
      handle: (call) => noContentAfter(templates.remove(templateKey(call.params.key), call)),
    }),
    route('POST /api/admin/email/templates/{key}/preview', {
      summary: 'Render a template without saving it',
      leastRole: 'operator',
      ...ofKey,
      audit: 'email_template.preview',
      readsToo: true,
      bodyLimit: BODY_LIMIT,
      body: t.object({ ...source, variables }),
      answers: {
        200: t.object({
          subject: t.string(),
          html: t.string(),
          text: t.string(),
          url: t.string({ description: 'the mail as a page: good once, for 60 seconds' }),
        }),
      },
      handle: async ({ params, body }) => {
        templateKey(params.key)
        const { subject, html } = renderTemplate(sourceOf(body), body.variables ?? {})
        return json(200, { subject, html, text: await plainTextOf(html), url: await keepPreview(db, html) })
      },
    }),
    route('POST /api/admin/email/send', {
      summary: 'Send a mail now',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'email.send',
      body: t.object({ templateKey: t.string(), to: t.string({ format: 'email' }), variables }),
      answers: { 200: t.object({ status: t.oneOf(['sent']) }) },
      handle: async (call) => {
        const { body } = call
        const key = templateKey(body.templateKey)
        const to = mailAddress(body.to)
        const rendered = await templates.render(key, body.variables ?? {})
        // A sent mail cannot be rolled back, so the entry is written first.
        await auditedEffect(db, call.audit({ target: key }), () => mailer.sendNow(key, to, rendered))
        return json(200, { status: 'sent' })
      },
    }),
  ]
  return {
    routes,
    queueMail: mailer.queueMail,
    wakeMail: mailer.wakeMail,
    start: () => mailer.work(),
    stop: () => transport.close(),
  }

  function transportOf({ outgoing }: { outgoing: Outgoing }): MailTransport {
    switch (config.backend) {
      case 'log':
        return logMailTransport(observe)
      case 'smtp':
        return smtpTransport(config)
      case 'webhook':
        return webhookMailTransport(config, outgoing)
    }
  }
}

const sourceOf = (given: { subjectTemplate: string; htmlTemplate: string }): TemplateSource => ({
  subject: given.subjectTemplate,
  html: given.htmlTemplate,
})

function mailAddress(text: string): string {
  const address = text.trim()
  if (!isEmail(address)) throw badRequest('invalid email address', 'invalid_email')
  return address
}
