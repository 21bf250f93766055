#!/usr/bin/env node
import module from 'node:module'
import { packageRoot } from './core/package-root.ts'

// Node 22.1 and newer can keep what V8 compiled. Beside the build, because a folder that others may write to, such as
// the default below /tmp, would let them put code into this process.
type WithCompileCache = { enableCompileCache?: (folder: string) => void }
if (import.meta.url.endsWith('.js')) (module as WithCompileCache).enableCompileCache?.(`${packageRoot}dist/.compiled`)

const { run } = await import('./cli/run.ts')
process.exitCode = await run(process.argv.slice(2))
