import { mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { transform } from 'esbuild'

/** Plain JavaScript, which runs before anything is installed. */
type Build = { bundle(outdir: string): Promise<void> }

/**
 * What the hundreds of processes of a test run load, made once: a third of the run would be each of them reading the
 * same TypeScript. The environment says where it is.
 */
export async function prepareCode(root: string, folder: string): Promise<NodeJS.ProcessEnv> {
  const transpiled = join(folder, 'transpiled')
  await Promise.all(typeScriptFiles(root).map((file) => transpile(join(root, file), join(transpiled, file))))
  return { SVC_TEST_TRANSPILED: transpiled, SVC_TEST_MAIN: await bundleIn(join(folder, 'build'), root) }
}

const typeScriptFiles = (root: string): string[] =>
  ['src', 'test', 'scripts'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => join(folder, file)),
  )

async function transpile(file: string, to: string): Promise<void> {
  const { code } = await transform(await readFile(file, 'utf8'), {
    loader: 'ts',
    format: 'esm',
    target: 'node20.19',
    sourcefile: file,
    sourcemap: 'inline',
    sourcesContent: false,
  })
  await mkdir(dirname(to), { recursive: true })
  await writeFile(to, code)
}

/** A build with what it needs beside it. Answers its main file. */
export async function bundleIn(folder: string, root: string): Promise<string> {
  mkdirSync(folder, { recursive: true })
  for (const name of ['node_modules', 'migrations', 'package.json']) symlinkSync(join(root, name), join(folder, name))
  const { bundle } = (await import(new URL('../build.js', import.meta.url).href)) as Build
  await bundle(join(folder, 'dist'))
  return join(folder, 'dist/main.js')
}
