import { join } from 'node:path'
import { packageRoot } from '../../src/core/package-root.ts'

const { SVC_TEST_CODE: code, SVC_TEST_MAIN: main } = process.env

/** Arguments with which Node runs a TypeScript program: as this test run bundled it, or as it is where a test is run by itself. */
export const programOf = (file: string): readonly string[] =>
  code ? [join(code, file.replace(/\.ts$/, '.js'))] : ['--import', import.meta.resolve('tsx'), join(packageRoot, file)]

/** The same for `svc`, in the build of this test run. */
export const svc: readonly string[] = main ? [main] : programOf('src/main.ts')
