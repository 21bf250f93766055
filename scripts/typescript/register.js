// `node --import`: runs TypeScript. Processes of a test run find it transpiled already (see test-code.ts); others ask tsx.
import { register } from 'node:module'

const transpiled = process.env['SVC_TEST_TRANSPILED']
if (transpiled) register('./hooks.js', import.meta.url, { data: transpiled })
else await import('tsx')
