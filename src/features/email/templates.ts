import type { AuditSource } from '../../core/audit-entry.ts'
import { AppError, notFound, reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import { audited, rowBefore } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import { type Builtin, builtins } from './builtin.ts'
import {
  allOverrides,
  deleteOverride,
  enableOverride,
  NEW_OVERRIDE,
  notedOverride,
  type Override,
  overrideOf,
  saveOverride,
} from './sql.ts'
import {
  checkTemplate,
  escapeValue,
  type Rendered,
  renderTemplate,
  type TemplateSource,
  type TemplateVariables,
} from './template.ts'

const missing = (): AppError => notFound('template not found', 'template_not_found')
const sourceOf = (override: Override): TemplateSource => ({
  subject: override.subjectTemplate,
  html: override.htmlTemplate,
})

/** The built-in templates and the operator's overrides and additions. */
export function createTemplates({ db, observe }: { db: Db; observe: Observe }) {
  const override = async (key: string): Promise<Override | undefined> =>
    (await db.rows<Override>(SYSTEM, overrideOf(key)))[0]

  const enabledOverride = async (key: string): Promise<Override | undefined> => {
    const found = await override(key)
    return found?.enabled ? found : undefined
  }

  /**
   * Mails of the server must arrive with their link: if an override fails to render or omits the link, the built-in
   * template is used.
   */
  function renderOrFallBack(key: string, own: Override | undefined, variables: TemplateVariables): Rendered {
    const builtin = builtins.get(key)
    if (own === undefined) {
      if (builtin === undefined) throw missing()
      return renderTemplate(builtin, variables)
    }
    try {
      const rendered = renderTemplate(sourceOf(own), variables)
      if (builtin === undefined || keepsSecret(builtin, rendered, variables)) return rendered
      throw new Error('the override leaves out what the mail is for')
    } catch (error) {
      if (builtin === undefined) throw error
      observe({
        message: 'mail template override failed, built-in used',
        attrs: { template: key, error: reasonOf(error) },
      })
      return renderTemplate(builtin, variables)
    }
  }

  return {
    async list() {
      const own = await db.rows<Override>(SYSTEM, allOverrides)
      const overridden = new Set(own.map(({ templateKey }) => templateKey))
      const items = own.map(({ templateKey, subjectTemplate, enabled, updatedAt }) => ({
        templateKey,
        source: 'custom',
        subjectTemplate,
        enabled,
        updatedAt: updatedAt as Date | undefined,
      }))
      for (const [templateKey, builtin] of builtins) {
        if (builtin.internal || overridden.has(templateKey)) continue
        const shown = { templateKey, source: 'builtin', subjectTemplate: builtin.subject, enabled: true }
        items.push({ ...shown, updatedAt: undefined })
      }
      return items.sort((a, b) => (a.templateKey < b.templateKey ? -1 : 1))
    },

    /** The template that a mail of this key would use now. */
    async effective(key: string) {
      const own = await enabledOverride(key)
      const builtin = builtins.get(key)
      if (own === undefined && builtin === undefined) throw missing()
      const source = own ? sourceOf(own) : (builtin as Builtin)
      return {
        templateKey: key,
        source: own ? 'custom' : 'builtin',
        subjectTemplate: source.subject,
        htmlTemplate: source.html,
        enabled: true,
        variables: builtin?.variables ?? checkTemplate(source),
        ...(own && { updatedAt: own.updatedAt }),
      }
    },

    async save(key: string, source: TemplateSource, act: AuditSource): Promise<Override> {
      checkTemplate(source)
      const noted = { ...NEW_OVERRIDE, ...rowBefore(notedOverride(key)) }
      const saving = audited(act.audit({ target: key }), saveOverride(key, source.subject, source.html), noted)
      const [saved] = await db.rows<Override>(SYSTEM, saving)
      if (!saved) throw new AppError('internal', 'failed to save template')
      return saved
    },

    async enable(key: string, enabled: boolean, act: AuditSource): Promise<void> {
      const entry = act.audit({ target: key, newValues: { enabled } })
      const change = audited(entry, enableOverride(key, enabled), rowBefore(notedOverride(key)))
      if ((await db.run(SYSTEM, change)) === 0) throw missing()
    },

    async remove(key: string, act: AuditSource): Promise<void> {
      const removal = audited(act.audit({ target: key }), deleteOverride(key), rowBefore(notedOverride(key)))
      if ((await db.run(SYSTEM, removal)) === 0) throw missing()
    },

    /** For an administrator: throws if the template is broken, without falling back. */
    async render(key: string, variables: TemplateVariables): Promise<Rendered> {
      const own = await enabledOverride(key)
      const source = own ? sourceOf(own) : builtins.get(key)
      if (source === undefined) throw missing()
      return renderTemplate(source, variables)
    },

    /** For mails that the server sends. */
    renderOrFallBack: async (key: string, variables: TemplateVariables): Promise<Rendered> =>
      renderOrFallBack(key, await enabledOverride(key), variables),
  }
}

export type Templates = ReturnType<typeof createTemplates>

/** Whether the rendered text contains the link, code or notice of the built-in mail. */
const keepsSecret = (builtin: Builtin, { html }: Rendered, variables: TemplateVariables): boolean =>
  builtin.variables
    .filter((name) => name !== 'AppName')
    .every((name) => html.includes(escapeValue(String(variables[name] ?? ''))))
