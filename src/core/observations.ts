/**
 * The catalogue of observations with their levels; docs/logs.md explains each. The message is the name: log lines,
 * /api/admin/logs and the counter of warnings and errors show the same text.
 */
export const observations = {
  // requests
  request: 'info',
  'request failed': 'error',
  'error answer failed': 'error',
  'request not reported': 'error',
  'http server error': 'error',
  'audit entry lost': 'error',
  // processes
  'unhandled rejection': 'error',
  'uncaught exception': 'error',
  'a worker did not start': 'error',
  'a worker ended and is replaced': 'error',
  'no pid file': 'warn',
  'admin token file not written': 'warn',
  'log lines dropped: nobody read them': 'warn',
  // database
  'database reachable': 'info',
  'database unreachable': 'error',
  'callers cannot log in': 'error',
  'schema loaded': 'debug',
  'schema reload failed': 'warn',
  'schema check failed': 'warn',
  'schema listener failed': 'error',
  'anybody may write to tables without row level security': 'warn',
  'cannot watch table': 'warn',
  'admin SQL could not be stopped': 'warn',
  'the login for undo stays open': 'warn',
  'materialized view not refreshed': 'error',
  // change log and queue
  'change log: settling failed': 'warn',
  'change log: held up': 'warn',
  'change log: notify failed': 'warn',
  'change log: read failed': 'warn',
  'change log: reader failed': 'warn',
  'change log: trim failed': 'warn',
  'change log: adopted the changes of a restored database': 'warn',
  'channels: messages not passed on': 'warn',
  'channels: presence not written': 'warn',
  'channels: rights not asked': 'warn',
  'queue: poll failed': 'warn',
  'queue: listen failed': 'warn',
  'queue: heartbeat failed': 'warn',
  'queue: claim failed': 'warn',
  'queue: write failed': 'warn',
  'queue: database is back': 'info',
  'queue: leases run out instead': 'warn',
  'queue: item failed, will retry': 'warn',
  'queue: item is dead': 'error',
  'queue: item not settled': 'error',
  'queue: onDead failed': 'error',
  'jobs not counted': 'warn',
  'schedules not looked at': 'warn',
  'schedule runs no more': 'error',
  // cleanup
  'expired sessions and codes not removed': 'warn',
  'finished jobs not removed': 'warn',
  'kept answers not removed': 'warn',
  'old audit entries not removed': 'warn',
  'push deliveries not removed': 'warn',
  'webhook deliveries not removed': 'warn',
  'unfinished uploads not removed': 'warn',
  'upload not discarded': 'warn',
  // accounts and secrets
  'revocations cannot be read': 'warn',
  'secrets encrypted anew': 'info',
  'secrets not encrypted anew': 'warn',
  'passkey refused': 'info',
  // messages
  mail: 'info',
  'mail sent': 'debug',
  'mail not sent': 'error',
  'mail template override failed, built-in used': 'warn',
  sms: 'info',
  'sms sent': 'debug',
  'push notification': 'info',
  // realtime, webhooks, vectors, usage
  'realtime: batch failed': 'error',
  'realtime: replay failed': 'error',
  'realtime: message failed': 'warn',
  'realtime: position lost, subscribers start anew': 'warn',
  'realtime: logged record is no row of its table': 'warn',
  'realtime: row security check failed': 'warn',
  'realtime: filter takes too long': 'warn',
  'webhook disabled: its receiver is gone': 'warn',
  'webhook queue not counted': 'warn',
  'embedding provider failed': 'warn',
  'embedding provider timed out': 'warn',
  'embedding provider is over its limit': 'warn',
  'usage not written': 'warn',
  'stored bytes not counted': 'warn',
} as const

export type ObservedMessage = keyof typeof observations

/** The text between two parts of a catalogue message, for messages built from parts. */
export type WordsBetween<Before extends string, After extends string> = {
  [M in ObservedMessage]: M extends `${Before}${infer Words}${After}` ? Words : never
}[ObservedMessage]
