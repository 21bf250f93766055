// A process to be killed: claims one item of the kind named on the command line and never ends it.

import { Queue } from '../../src/db/queue/queue.ts'
import { poolOn } from '../kit/pool.ts'

const [url = '', kind = ''] = process.argv.slice(2)
const observe = () => {}
const pool = await poolOn(url, { maxConns: 3 })
const queue = new Queue({ db: pool, observe })
queue.start()
queue.work(kind, { concurrency: 1, leaseSeconds: 600, retryDelays: [1] }, async ({ attempt }) => {
  console.log(`claimed ${attempt}`)
  await new Promise(() => {})
})
setInterval(() => {}, 1000)
