/** What stands on the platform: loaded and compiled while that waits for PostgreSQL. */
export { createHttpServer } from '../http/server.ts'
export { cleanupsOf } from './cleanups.ts'
export { createData } from './data.ts'
export { createEvents } from './events.ts'
export { createFiles } from './files.ts'
export { createIdentity } from './identity.ts'
export { createMessages } from './messages.ts'
export { createOperator } from './operator.ts'
