// `npm run routes [-- words]`: METHOD PATH → file, to find the code behind an endpoint.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const words = process.argv.slice(2)
const lines = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
  .flatMap((name) => {
    const text = readFileSync(join('src', name), 'utf8')
    return [...text.matchAll(/\broute(?:<[^(]*>)?\(\s*['`]([A-Z]+) (\/[^'`]*)['`]/g)].map(
      ({ 1: method = '', 2: path = '', index }) =>
        `${method.padEnd(6)} ${path.padEnd(48)} src/${name}:${text.slice(0, index).split('\n').length}`,
    )
  })
  .filter((line) => words.every((word) => line.includes(word)))
  .sort((a, b) => a.slice(7).localeCompare(b.slice(7)))

console.log(lines.join('\n'))
