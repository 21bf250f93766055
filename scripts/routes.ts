// `npm run routes [-- words]`: prints METHOD PATH file:line of all endpoints that contain the words.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export type SourceRoute = { method: string; path: string; file: string; line: number }

/** Routes as written in the sources, sorted by path. Paths may contain parts such as `${format}`. */
export const routesInSources = (): SourceRoute[] =>
  readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .flatMap((name) => routesIn(join('src', name)))
    .sort((a, b) => a.path.localeCompare(b.path))

function routesIn(file: string): SourceRoute[] {
  const text = readFileSync(file, 'utf8')
  const bases = new Map([...text.matchAll(/const (\w+) = '(\/[^']*)'/g)].map(([, name, path]) => [name, path]))
  const calls = text.matchAll(/\broute(?:<[^(]*>)?\(\s*['`]([A-Z]+) ([/$][^'`]*)['`]/g)
  return [...calls].map(({ 1: method = '', 2: path = '', index }) => ({
    method,
    path: path.replace(/\$\{(\w+)\}/g, (part, name) => bases.get(name) ?? part),
    file,
    line: text.slice(0, index).split('\n').length,
  }))
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const words = process.argv.slice(2)
  const lines = routesInSources().map(
    ({ method, path, file, line }) => `${method.padEnd(6)} ${path.padEnd(48)} ${file}:${line}`,
  )
  console.log(lines.filter((line) => words.every((word) => line.includes(word))).join('\n'))
}
