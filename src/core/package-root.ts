import { fileURLToPath } from 'node:url'

const [, root = '/'] = /^(.*\/)(?:src|dist)\//.exec(import.meta.url) ?? []

/** The folder of this package, for src/ and for dist/. Ends with a slash. */
export const packageRoot: string = fileURLToPath(root)
