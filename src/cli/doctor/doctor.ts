import type { Config } from '../../config/config.ts'
import { reasonOf } from '../../core/errors.ts'
import type { Context } from '../command/command.ts'
import { withConnection } from '../command/database.ts'
import { examineConfiguration } from './configuration.ts'
import { examineDatabase } from './database.ts'
import { type DoctorItem, finding } from './finding.ts'
import { examineCertificates, examineDisk } from './machine.ts'

/** Looks at everything it can reach. Exit code 1 when something is found. */
export async function doctor(context: Context): Promise<number> {
  const items = await examine(context)
  const findings = items.filter(({ state }) => state === 'finding')
  if (context.json) context.print(JSON.stringify({ items }))
  else for (const item of items) context.print(lineOf(item))
  return findings.length > 0 ? 1 : 0
}

async function examine(context: Context): Promise<readonly DoctorItem[]> {
  let loaded: { config: Config; warnings: string[] }
  try {
    loaded = context.config()
  } catch (error) {
    return [finding('configuration', reasonOf(error), 'correct it: docs/config.md lists every key')]
  }
  const { config, warnings } = loaded
  const here = [
    ...examineConfiguration(config, warnings),
    ...(await examineDisk(config)),
    ...examineCertificates(config),
  ]
  try {
    return [...here, ...(await withConnection(config, (client) => examineDatabase(client, config)))]
  } catch (error) {
    return [...here, finding('database', reasonOf(error), 'start PostgreSQL, or correct database.url')]
  }
}

const lineOf = ({ check, state, message, fix }: DoctorItem): string =>
  state === 'ok' ? `ok       ${check}: ${message}` : `finding  ${check}: ${message}\n         → ${fix}`
