import { fileURLToPath } from 'node:url'

/** Arguments with which Node runs TypeScript, in any folder. */
export const typescript = ['--import', new URL('../../scripts/typescript/register.js', import.meta.url).href] as const

/** Arguments with which Node runs `svc`: the build of this test run, or the sources where a test is run by itself. */
export const svc: readonly string[] = process.env['SVC_TEST_MAIN']
  ? [process.env['SVC_TEST_MAIN']]
  : [...typescript, fileURLToPath(new URL('../../src/main.ts', import.meta.url))]
