import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

/** Bytes of a module with everything it imports, minified and gzipped, as a browser loads it. */
export async function sizeOf(code: string, resolveDir: string): Promise<number> {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir, loader: 'ts' },
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    legalComments: 'none',
    external: ['react'],
    logLevel: 'silent',
  })
  return gzipSync(outputFiles[0]?.contents ?? '', { level: 9 }).length
}

const DATA = `export { createClient, where } from './data.ts'; export { createAuth } from './auth.ts'`

/** What applications import, from `client/src`. */
export const ENTRIES = {
  data: `export { createClient, where } from './data.ts'`,
  'data, auth': DATA,
  'data, auth, realtime': `${DATA}; export { createRealtime } from './realtime.ts'`,
  'auth, all of it': `${DATA}; export * from './account.ts'; export * from './oauth.ts'; export * from './passkeys.ts'`,
  live: `export * from './live.ts'`,
  history: `export * from './history.ts'`,
  channels: `export * from './channels.ts'`,
  everything: `export * from './main.ts'`,
  react: `export * from './react.ts'`,
} as const
