import { readFileSync, writeFileSync } from 'node:fs'
import { envName, listedKeys } from '../src/config/config.ts'

const FILE = new URL('../docs/config.md', import.meta.url)
const START = '<!-- keys: written by scripts/config-docs.ts -->'
const END = '<!-- /keys -->'

/** The table of docs/config.md, generated from src/config/table.ts. */
export function configTable(): string {
  const rows = listedKeys().map(({ key, field }) => {
    const flag = field.flag === undefined ? '' : `; flag \`--${field.flag}\``
    const cells = [`\`${key}\``, field.type, shown(field.fallback), `\`${envName(key)}\``, field.meaning + flag]
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  })
  return ['| Key | Type | Default | Environment | Meaning |', '|---|---|---|---|---|', ...rows].join('\n')
}

const shown = (value: unknown): string => {
  if (Array.isArray(value)) return value.length === 0 ? '`[]`' : `\`${value.join(',')}\``
  if (typeof value === 'object' && value !== null) return '`{}`'
  return value === '' ? '""' : `\`${value}\``
}

export function withTable(page: string): string {
  const [before, rest = ''] = page.split(START)
  return `${before}${START}\n${configTable()}\n${END}${rest.split(END)[1] ?? ''}`
}

export const readPage = (): string => readFileSync(FILE, 'utf8')

if (process.argv[1] === new URL(import.meta.url).pathname) writeFileSync(FILE, withTable(readPage()))
