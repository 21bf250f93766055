import type { Command } from './command/command.ts'

export const backupCommands: Readonly<Record<string, Command>> = {
  backup: {
    examples: ['svc backup --to /srv/backups', 'svc backup --to s3://backups/shop --files'],
    about: { to: 'a folder or s3://bucket/prefix; default: backup.to', files: 'copy files that lie in S3 too' },
    usage: 'backup [--to <folder or s3://…>] [--files]',
    summary: 'take a backup of the database and its files; --files copies files that lie in S3 too',
    flags: { to: 'string', files: 'boolean' },
    run: async (context) => (await import('./backup.ts')).backup(context),
  },
  'backup list': {
    examples: ['svc backup list', 'svc backup list --json'],
    about: { to: 'default: backup.to' },
    usage: 'backup list [--to <target>]',
    summary: 'backups and whether they are good',
    flags: { to: 'string' },
    run: async (context) => (await import('./backup.ts')).backupList(context),
  },
  'backup verify': {
    examples: ['svc backup verify 20260101T000000Z', 'svc backup verify 20260101T000000Z --to /srv/backups'],
    about: { to: 'default: backup.to' },
    usage: 'backup verify <id> [--to <target>]',
    args: ['id'],
    summary: 'restore a backup into a scratch directory and check it; exit code 1 unless it is good',
    flags: { to: 'string' },
    run: async (context) => (await import('./backup.ts')).backupVerify(context),
  },
  'backup prune': {
    examples: ['svc backup prune', 'svc backup prune --to /srv/backups'],
    about: { to: 'default: backup.to' },
    usage: 'backup prune [--to <target>]',
    summary: 'remove what is in none of the backup.keep newest good backups',
    flags: { to: 'string' },
    run: async (context) => (await import('./backup.ts')).backupPrune(context),
  },
  restore: {
    examples: [
      'svc restore --from /srv/backups --data-dir /srv/restored',
      'svc restore --from s3://backups/shop --at "2026-11-16 12:00:00+00" --data-dir /srv/new --take-over',
    ],
    about: {
      from: 'the folder or s3:// target of the backup',
      at: 'the moment to restore to',
      before: 'the id of the request to stop before',
      'root-secret': 'a file with the root secret, where the backup holds none',
      'take-over': 'make it the server, not a drill',
      'keep-credentials': 'leave sessions and keys as they were at that moment',
    },
    usage: 'restore --from <target> [<id>] [--at <time> | --before <request id>] --data-dir <new>',
    args: ['id?'],
    summary: 'restore a backup into an empty data directory, to the end, to a time or to just before a request',
    flags: {
      from: 'string',
      at: 'string',
      before: 'string',
      'root-secret': 'string',
      'take-over': 'boolean',
      'keep-credentials': 'boolean',
    },
    run: async (context) => (await import('./restore.ts')).restore(context),
  },
  'restore take-over': {
    examples: ['svc restore take-over --data-dir /srv/restored', 'svc restore take-over --data-dir /srv/new --json'],
    usage: 'restore take-over --data-dir <dir>',
    summary: 'make a restored server the server: from its next start it sends, removes and backs up again',
    run: async (context) => (await import('./restore.ts')).takeOver(context),
  },
}
