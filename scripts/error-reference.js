// `import reference from '…/docs/errors.md'` in a page: the codes of failures as a list, for the reference that `doc_url` opens.
import { readFileSync } from 'node:fs'

/** Each line of a table under its heading: | `code` | status | when | */
export function errorReference(text) {
  const codes = []
  let group = ''
  for (const line of text.split('\n')) {
    group = /^## (.+)$/.exec(line)?.[1] ?? group
    const [, error, status, when] = /^\| `(\w+)` \| (\d+) \|(.*)\|$/.exec(line) ?? []
    if (error) codes.push({ group, error, status: Number(status), when: when.trim() })
  }
  return codes
}

export const errorReferencePlugin = {
  name: 'reference of errors',
  setup: (build) =>
    build.onLoad({ filter: /[\\/]docs[\\/]errors\.md$/ }, ({ path }) => ({
      contents: JSON.stringify(errorReference(readFileSync(path, 'utf8'))),
      loader: 'json',
    })),
}
