import { fileURLToPath } from 'node:url'

const [, root = '/'] = /^(.*\/)(?:src|dist)\//.exec(import.meta.url) ?? []

/** The folder of this package, whether it runs from src/ or bundled from dist/. Ends with a slash. */
export const packageRoot: string = fileURLToPath(root)
