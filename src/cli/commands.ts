import type { Command } from './command/command.ts'

/** Each command is loaded when it runs, so that `svc version` does not load the server. */
const byName: Readonly<Record<string, Command>> = {
  start: {
    usage: 'start [--detach]',
    summary: 'run the server, in the background with --detach',
    flags: { detach: 'boolean' },
    run: async (context) => {
      if (context.flag('detach')) return (await import('./detach.ts')).detach(context)
      return (await import('./start.ts')).start(context)
    },
  },
  stop: {
    usage: 'stop',
    summary: 'stop the server of this data directory',
    run: async (context) => (await import('./stop.ts')).stop(context),
  },
  status: {
    usage: 'status',
    summary: 'pid, URL and health; exit code 1 when it is down',
    usesServer: true,
    run: async (context) => (await import('./status.ts')).status(context),
  },
  sql: {
    usage: 'sql "<query>"',
    summary: 'run SQL through the server; - reads it from stdin',
    usesServer: true,
    run: async (context) => (await import('./sql.ts')).sqlCommand(context),
  },
  history: {
    usage: 'history <table> <id>',
    summary: 'the changes of a row, newest first',
    run: async (context) => (await import('./history.ts')).historyCommand(context),
  },
  undo: {
    usage: 'undo --request <id> | --transaction <id> [--dry-run] [--force]',
    summary: 'undo the changes of a request or a transaction, all or none',
    flags: { request: 'string', transaction: 'string', 'dry-run': 'boolean', force: 'boolean' },
    run: async (context) => (await import('./history.ts')).undoCommand(context),
  },
  advise: {
    usage: 'advise',
    summary: 'what would make the database faster or safer, with SQL to apply',
    usesServer: true,
    run: async (context) => (await import('./advise.ts')).adviseCommand(context),
  },
  mcp: {
    usage: 'mcp [--read-only] [--admin]',
    summary: 'connect a local agent over stdio: as you, signed in by the browser; --admin: as the operator',
    flags: { admin: 'boolean', 'read-only': 'boolean' },
    usesServer: true,
    run: async (context) => (await import('./mcp/mcp.ts')).mcpCommand(context),
  },
  'migrate up': {
    usage: 'migrate up',
    summary: 'apply the migrations that are not applied yet',
    run: async (context) => (await import('./migrate.ts')).up(context),
  },
  'migrate create': {
    usage: 'migrate create <name>',
    summary: 'make an empty migration file',
    run: async (context) => (await import('./migrate.ts')).create(context),
  },
  'migrate status': {
    usage: 'migrate status',
    summary: 'which migrations are applied',
    run: async (context) => (await import('./migrate.ts')).migrationStatus(context),
  },
  'admin reset-password': {
    usage: 'admin reset-password',
    summary: 'make a new admin password; all admin tokens end',
    run: async (context) => (await import('./reset-password.ts')).resetPassword(context),
  },
  'admin add': {
    usage: 'admin add <address> [--role <role>] [--name <name>]',
    summary: 'add an administrator: owner, operator or viewer (default)',
    flags: { role: 'string', name: 'string' },
    usesServer: true,
    run: async (context) => (await import('./admins.ts')).addAdmin(context),
  },
  'admin remove': {
    usage: 'admin remove <id or address>',
    summary: 'remove an administrator; the tokens end',
    usesServer: true,
    run: async (context) => (await import('./admins.ts')).removeAdmin(context),
  },
  'admin list': {
    usage: 'admin list',
    summary: 'administrators and their roles',
    usesServer: true,
    run: async (context) => (await import('./admins.ts')).listAdmins(context),
  },
  users: {
    usage: 'users <action> [<id or address>]',
    summary: 'list, show, create, invite, disable, enable, password, sessions, end-sessions, export, delete users',
    usesServer: true,
    run: async (context) => (await import('./users.ts')).users(context),
  },
  'secrets rotate': {
    usage: 'secrets rotate signing-key [--compromised]',
    summary: 'make a new key for access tokens; tokens of the old one stay good unless it is compromised',
    flags: { compromised: 'boolean' },
    usesServer: true,
    run: async (context) => (await import('./rotate-secrets.ts')).rotateSecrets(context),
  },
  'secrets reencrypt': {
    usage: 'secrets reencrypt',
    summary: 'encrypt anew what an old auth.encryption_key encrypted; exit code 1 when something cannot be read',
    run: async (context) => (await import('./reencrypt.ts')).reencrypt(context),
  },
  cleanup: {
    usage: 'cleanup <name>',
    summary: 'remove what is expired or abandoned; without a name, list what there is',
    run: async (context) => (await import('./cleanup.ts')).cleanup(context),
  },
  backup: {
    usage: 'backup [--to <folder or s3://…>] [--files]',
    summary: 'take a backup of the database and its files; --files copies files that lie in S3 too',
    flags: { to: 'string', files: 'boolean' },
    run: async (context) => (await import('./backup.ts')).backup(context),
  },
  'backup list': {
    usage: 'backup list [--to <target>]',
    summary: 'backups and whether they are good',
    flags: { to: 'string' },
    run: async (context) => (await import('./backup.ts')).backupList(context),
  },
  'backup verify': {
    usage: 'backup verify <id> [--to <target>]',
    summary: 'restore a backup into a scratch directory and check it; exit code 1 unless it is good',
    flags: { to: 'string' },
    run: async (context) => (await import('./backup.ts')).backupVerify(context),
  },
  'backup prune': {
    usage: 'backup prune [--to <target>]',
    summary: 'remove what is in none of the backup.keep newest good backups',
    flags: { to: 'string' },
    run: async (context) => (await import('./backup.ts')).backupPrune(context),
  },
  restore: {
    usage: 'restore --from <target> [<id>] [--at <time> | --before <request id>] --data-dir <new>',
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
    usage: 'restore take-over --data-dir <dir>',
    summary: 'make a restored server the server: from its next start it sends, removes and backs up again',
    run: async (context) => (await import('./restore.ts')).takeOver(context),
  },
  types: {
    usage: 'types [--out <file>] [--watch]',
    summary: 'write TypeScript types of the tables, enums and functions of the database',
    flags: { out: 'string', watch: 'boolean' },
    usesServer: true,
    run: async (context) => (await import('./typescript/write-types.ts')).writeTypes(context),
  },
  export: {
    usage: 'export <table> [<file>] [--format csv|json|ndjson] [--filter --sort --fields]',
    summary: 'write the rows of a table to a file, or to stdout',
    flags: { format: 'string', filter: 'string', sort: 'string', fields: 'string' },
    usesServer: true,
    run: async (context) => (await import('./files/bulk.ts')).exportTable(context),
  },
  import: {
    usage: 'import <table> <file> [--format] [--on-conflict <columns>] [--dry-run]',
    summary: 'send a CSV, JSON or NDJSON file into a table: all rows or none',
    flags: { format: 'string', 'on-conflict': 'string', 'dry-run': 'boolean' },
    usesServer: true,
    run: async (context) => (await import('./files/bulk.ts')).importTable(context),
  },
  'rls snapshot': {
    usage: 'rls snapshot [<file>] [--users <a,b>]',
    summary: 'write who may do what with a sample of every table, for version control',
    flags: { users: 'string' },
    usesServer: true,
    run: async (context) => (await import('./rls.ts')).snapshot(context),
  },
  'rls diff': {
    usage: 'rls diff [<file>]',
    summary: 'what changed since that snapshot; exit code 1 when anything did',
    usesServer: true,
    run: async (context) => (await import('./rls.ts')).diff(context),
  },
  'sites deploy': {
    usage: 'sites deploy <dir> --site <slug>',
    summary: 'upload what changed in a folder and make it live',
    flags: { site: 'string' },
    usesServer: true,
    run: async (context) => (await import('./files/deploy.ts')).deploy(context),
  },
  'storage ls': {
    usage: 'storage ls <bucket> [<prefix>]',
    summary: 'list files of a bucket',
    usesServer: true,
    run: async (context) => (await import('./files/storage.ts')).listFiles(context),
  },
  'storage get': {
    usage: 'storage get <bucket>/<name> [<file>]',
    summary: 'download a file; - writes it to stdout',
    usesServer: true,
    run: async (context) => (await import('./files/storage.ts')).getFile(context),
  },
  'storage put': {
    usage: 'storage put <file> <bucket>[/<name>]',
    summary: 'upload a file',
    usesServer: true,
    run: async (context) => (await import('./files/storage.ts')).putFile(context),
  },
  version: {
    usage: 'version',
    summary: 'print the version',
    run: async (context) => {
      const { version } = await import('../core/version.ts')
      context.print(context.json ? JSON.stringify({ version }) : version)
      return 0
    },
  },
}

export const commands: ReadonlyMap<string, Command> = new Map(Object.entries(byName))
