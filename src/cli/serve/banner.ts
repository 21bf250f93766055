import type { Capability } from '../../db/setup/capabilities.ts'

export type BannerFacts = {
  appVersion: string
  url: string
  /** Undefined where it is switched off. */
  dashboard: string | undefined
  database: string
  capabilities: readonly Capability[]
  warnings: readonly string[]
  /** Set only in the process that generated it. */
  adminPassword: string | undefined
  /** It runs on a restored copy that was not taken over. */
  drill: boolean
}

export function banner(facts: BannerFacts): string {
  const { appVersion, url, dashboard, database, capabilities, warnings, adminPassword, drill } = facts
  return [
    '',
    `Savanna ${appVersion} is ready${drill ? ': a drill on a restored copy' : ''}`,
    '',
    `  URL        ${url}`,
    ...(dashboard === undefined ? [] : [`  Dashboard  ${dashboard} (svc open signs you in)`]),
    `  Database   ${database}`,
    ...capabilities.map((one, i) => `  ${i === 0 ? 'Extensions' : '          '} ${describe(one)}`),
    ...(warnings.length === 0 ? [] : ['', ...warnings.map((warning) => `  Warning    ${warning}`)]),
    ...(adminPassword === undefined ? [] : ['', `  Admin password (shown only this once): ${adminPassword}`]),
    '',
  ].join('\n')
}

const describe = ({ name, serves, without, state, version }: Capability): string => {
  switch (state) {
    case 'present':
      return `${name} ${version} (${serves})`
    case 'available':
      return `${name} ${version} can be created: create extension ${name} (${serves})`
    case 'missing':
      return `${name} is not installed (${without}): svc extensions add ${name}`
  }
}
