/** npm run bench [requests | start | limits | realtime | live | files | jobs | graphql | metering | search | bulk | cursors | client | faults | storm | churn | backup | replicas] [--quick | --large] */
const suites: Readonly<Record<string, () => Promise<unknown>>> = {
  requests: () => import('./requests.ts'),
  start: () => import('./start.ts'),
  limits: () => import('./limits.ts'),
  realtime: () => import('./realtime/suite.ts'),
  live: () => import('./live/suite.ts'),
  files: () => import('./files.ts'),
  jobs: () => import('./jobs.ts'),
  graphql: () => import('./graphql.ts'),
  metering: () => import('./metering.ts'),
  search: () => import('./search.ts'),
  bulk: () => import('./bulk.ts'),
  cursors: () => import('./cursors.ts'),
  client: () => import('./client.ts'),
  faults: () => import('./faults/locks-and-lists.ts'),
  storm: () => import('./faults/storm.ts'),
  churn: () => import('./faults/churn.ts'),
  backup: () => import('./backup.ts'),
  replicas: () => import('./replicas.ts'),
}

const named = process.argv[2] ?? ''
const suite = suites[named.startsWith('--') || named === '' ? 'requests' : named]
if (suite) await suite()
else {
  console.error(`unknown benchmark: ${named} (there are ${Object.keys(suites).join(', ')})`)
  process.exitCode = 2
}
