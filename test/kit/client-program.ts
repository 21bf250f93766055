import { execFile } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type BuildOptions, build } from 'esbuild'
import { packageRoot } from '../../src/core/package-root.ts'

const entry = (name: string): string => join(packageRoot, 'client/src', `${name}.ts`)

/** Bundles a program that imports `savanna-client`, which is this repository's. */
export async function bundleWithClient(code: string, options: BuildOptions = {}): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: packageRoot, loader: 'tsx' },
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    alias: {
      'savanna-client': entry('main'),
      ...Object.fromEntries(
        ['data', 'auth', 'account', 'oauth', 'passkeys', 'realtime', 'storage', 'react'].map((name) => [
          `savanna-client/${name}`,
          entry(name),
        ]),
      ),
    },
    define: { 'process.env.NODE_ENV': '"production"' },
    logLevel: 'warning',
    ...options,
  })
  return outputFiles?.[0]?.text ?? ''
}

/** Runs it in Node, until it ends by itself. */
export async function runWithClient(code: string): Promise<{ stdout: string; stderr: string }> {
  const file = join(mkdtempSync(join(tmpdir(), 'svc-program-')), 'program.mjs')
  writeFileSync(file, await bundleWithClient(code))
  return promisify(execFile)(process.execPath, [file], { timeout: 60_000 })
}
