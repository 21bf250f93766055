import { badRequest } from '../../core/errors.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import type { Queue } from '../../db/queue/queue.ts'
import type { Sql } from '../../db/sql.ts'
import { object, optionalBoolean, optionalObject, requiredString } from '../../http/fields.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { json, noContent, type Route, route } from '../../http/route.ts'
import { logTransport } from './log-transport.ts'
import { createMailer } from './mailer.ts'
import { smtpTransport } from './smtp-transport.ts'
import { checkTemplate, renderTemplate, type Source, templateKey } from './template.ts'
import { createTemplates } from './templates.ts'
import { textOf } from './text.ts'
import type { MailConfig, MailTransport } from './transport.ts'
import { webhookTransport } from './webhook-transport.ts'

/** Room to tell an oversized template from an oversized request. */
const BODY_LIMIT = 12 * 1024 * 1024

export type Email = {
  routes: Route[]
  /** A statement for the caller's own flight; call `wakeMail` once it committed. */
  queueMail(template: string, to: string, variables: Readonly<Record<string, string>>): Sql
  wakeMail(): void
  stop(): void
}

export function createEmail(deps: {
  db: Db
  queue: Queue
  outgoing: Outgoing
  observe: Observe
  config: MailConfig
  appName: string
}): Email {
  const { db, queue, observe, config, appName } = deps
  const transport = transportOf(deps)
  const templates = createTemplates({ db, observe })
  const mailer = createMailer({ queue, templates, transport, observe, appName })
  mailer.work()

  const routes = [
    route('GET /api/admin/email/templates', {
      auth: 'admin',
      handle: async () => {
        const items = await templates.list()
        return json(200, { items, count: items.length })
      },
    }),
    route('GET /api/admin/email/templates/{key}', {
      auth: 'admin',
      handle: async ({ params }) => json(200, await templates.effective(keyOf(params))),
    }),
    route('PUT /api/admin/email/templates/{key}', {
      auth: 'admin',
      audit: 'email_template.update',
      bodyLimit: BODY_LIMIT,
      handle: async ({ params, body }) => {
        const key = keyOf(params)
        return json(200, await templates.save(key, sourceOf(body)))
      },
    }),
    route('PATCH /api/admin/email/templates/{key}', {
      auth: 'admin',
      audit: 'email_template.toggle',
      handle: async ({ params, body }) => {
        const key = keyOf(params)
        const enabled = optionalBoolean(object(body), 'enabled')
        if (enabled === undefined) throw badRequest('enabled field is required')
        await templates.enable(key, enabled)
        return json(200, { templateKey: key, enabled })
      },
    }),
    route('DELETE /api/admin/email/templates/{key}', {
      auth: 'admin',
      audit: 'email_template.delete',
      handle: async ({ params }) => {
        await templates.remove(keyOf(params))
        return noContent
      },
    }),
    route('POST /api/admin/email/templates/{key}/preview', {
      auth: 'admin',
      audit: 'email_template.preview',
      bodyLimit: BODY_LIMIT,
      handle: async ({ params, body }) => {
        keyOf(params)
        const source = sourceOf(body)
        checkTemplate(source)
        const { subject, html } = renderTemplate(source, optionalObject(object(body), 'variables') ?? {})
        return json(200, { subject, html, text: await textOf(html) })
      },
    }),
    route('POST /api/admin/email/send', {
      auth: 'admin',
      audit: 'email.send',
      handle: async ({ body }) => {
        const fields = object(body)
        const key = templateKey(requiredString(fields, 'templateKey'))
        const to = mailAddress(requiredString(fields, 'to'))
        await mailer.sendNow(key, to, optionalObject(fields, 'variables') ?? {})
        return json(200, { status: 'sent' })
      },
    }),
  ]
  return { routes, queueMail: mailer.queueMail, wakeMail: mailer.wakeMail, stop: () => transport.close() }

  function transportOf({ outgoing }: { outgoing: Outgoing }): MailTransport {
    switch (config.backend) {
      case 'log':
        return logTransport(observe)
      case 'smtp':
        return smtpTransport(config)
      case 'webhook':
        return webhookTransport(config, outgoing)
    }
  }
}

const keyOf = (params: Readonly<Record<string, string>>): string => templateKey(params['key'] ?? '')

function sourceOf(body: unknown): Source {
  const fields = object(body)
  return { subject: requiredString(fields, 'subjectTemplate'), html: requiredString(fields, 'htmlTemplate') }
}

/** One plain address; display names, lists and line breaks have no place here. */
function mailAddress(text: string): string {
  const address = text.trim()
  if (address.length > 320 || !/^[^\s@,;:<>()"[\]\\]+@[^\s@,;:<>()"[\]\\.]+(\.[^\s@,;:<>()"[\]\\.]+)*$/.test(address)) {
    throw badRequest('invalid email address')
  }
  return address
}
