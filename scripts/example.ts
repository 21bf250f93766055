// `npm run example -- <name> [--out <folder>]`: bundles an example and serves it, or writes it to a folder.
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type BuildOptions, build, context } from 'esbuild'

const root = fileURLToPath(new URL('..', import.meta.url))
const PORT = 3000

/** With the client of this repository. */
export const exampleBuild = (name: string, outdir: string): BuildOptions => ({
  absWorkingDir: root,
  entryPoints: [`examples/${name}/main.*`],
  outdir,
  bundle: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  alias: {
    'savanna-client': join(root, 'client/src/main.ts'),
    'savanna-client/react': join(root, 'client/src/react.ts'),
  },
  logLevel: 'warning',
})

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({ options: { out: { type: 'string' } }, allowPositionals: true })
  const [name = 'todo'] = positionals
  const page = join(root, 'examples', name, 'index.html')
  if (values.out !== undefined) {
    await build({ ...exampleBuild(name, values.out), minify: true })
    return cpSync(page, join(values.out, 'index.html'))
  }
  const served = await context(exampleBuild(name, join(root, 'examples', name)))
  await served.serve({ servedir: join(root, 'examples', name), port: PORT })
  console.log(`http://localhost:${PORT}`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main()
