import { randomUUID } from 'node:crypto'
import { AppError, reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import { countUpTo } from '../../db/counters.ts'
import type { Db } from '../../db/db.ts'
import { GiveUp, type Queue } from '../../db/queue/queue.ts'
import type { Sql } from '../../db/sql.ts'
import { plainTextOf } from './plain-text.ts'
import { accountOf } from './sql.ts'
import type { Rendered, TemplateVariables } from './template.ts'
import type { Templates } from './templates.ts'
import type { MailTransport } from './transport.ts'

const KIND = 'mail'
/** To one address and of one sort, so that links which strangers ask for do not use up codes and notices, nor a thief the way back. */
const MAILS_PER_HOUR = 10
const SORTS: ReadonlyMap<string, string> = new Map([
  ['auth.mfa_code', 'code'],
  ['auth.security_notice', 'notice'],
  ['auth.email_changed', 'change of address'],
])
/** Links in mails expire after an hour at most, so longer retries are useless. */
const RETRY_DELAYS = [5, 15, 60, 300, 900, 1800]

type Queued = {
  id: string
  template: string
  to: string
  variables: TemplateVariables
  /** Queued for unknown addresses too, so that queueing tells nothing. */
  onlyToAccounts?: true
}

export function createMailer(deps: {
  db: Db
  queue: Queue
  templates: Templates
  transport: MailTransport
  observe: Observe
  appName: string
}) {
  const { db, queue, templates, transport, observe, appName } = deps

  async function deliver(id: string, to: string, template: string, { subject, html }: Rendered): Promise<void> {
    await transport.send({ id, to, subject, html, text: await plainTextOf(html), template })
  }

  async function sendQueued({ id, template, to, variables, onlyToAccounts }: Queued): Promise<void> {
    const rendered = await templates
      .renderOrFallBack(template, { AppName: appName, ...variables })
      .catch((error: unknown) => {
        // A broken template will not render later either; a database outage passes.
        if (error instanceof AppError && error.status < 500) throw new GiveUp(reasonOf(error))
        throw error
      })
    if (onlyToAccounts && (await db.run(SYSTEM, accountOf(to))) === 0) return
    await deliver(id, to, template, rendered)
    observe({ message: 'mail sent', attrs: { template } })
  }

  return {
    work(): void {
      queue.work(KIND, { concurrency: 4, leaseSeconds: 60, retryDelays: RETRY_DELAYS, finishes: true }, (item) =>
        sendQueued(item.payload as Queued),
      )
    },

    /**
     * A statement for the caller's flight: the mail exists if and only if the flight commits. The row, and with it
     * the link in its variables, is deleted once the mail is sent or given up. Changes nothing when the address has
     * had its mails of this hour.
     */
    queueMail(
      template: string,
      to: string,
      variables: Readonly<Record<string, string>>,
      { beside, onlyToAccounts = false }: { beside?: Sql; onlyToAccounts?: boolean } = {},
    ): Sql {
      const mail: Queued = { id: randomUUID(), template, to, variables, ...(onlyToAccounts && { onlyToAccounts }) }
      const forEach = countUpTo(`mail ${SORTS.get(template) ?? 'link'} ${to}`, MAILS_PER_HOUR, 3600)
      return queue.push(KIND, mail, { forEach, ...(beside && { beside }) })
    },
    wakeMail: (): void => queue.wake(KIND),

    /** Sends without the queue, for an administrator who waits for the result. */
    async sendNow(template: string, to: string, rendered: Rendered): Promise<void> {
      try {
        await deliver(randomUUID(), to, template, rendered)
      } catch (error) {
        observe({ message: 'mail not sent', attrs: { template, error: reasonOf(error) } })
        throw new AppError('internal', 'failed to send email', { cause: error })
      }
    },
  }
}
