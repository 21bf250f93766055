// Module hooks of Node (module.register): what is imported as `x.ts` is read from where it lies transpiled.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
let transpiled = ''

export function initialize(folder) {
  transpiled = folder
}

export function resolve(specifier, context, next) {
  if (!specifier.endsWith('.ts') || !context.parentURL?.endsWith('.ts')) return next(specifier, context)
  return { url: new URL(specifier, context.parentURL).href, format: 'module', shortCircuit: true }
}

export async function load(url, context, next) {
  if (!url.endsWith('.ts')) return next(url, context)
  const source = await readFile(join(transpiled, fileURLToPath(url).slice(root.length)))
  return { format: 'module', source, shortCircuit: true }
}
