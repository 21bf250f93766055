import type { Command } from './command/command.ts'

export const serverCommands: Readonly<Record<string, Command>> = {
  start: {
    usage: 'start [--detach]',
    summary: 'run the server, in the background with --detach',
    examples: ['svc start --port 9000', 'svc start --detach'],
    about: { detach: 'run in the background; the log goes to <data_dir>/svc.log' },
    flags: { detach: 'boolean' },
    run: async (context) => {
      if (context.flag('detach')) return (await import('./detach.ts')).detach(context)
      return (await import('./start.ts')).start(context)
    },
  },
  stop: {
    usage: 'stop',
    summary: 'stop the server of this data directory',
    examples: ['svc stop', 'svc stop --data-dir /srv/savanna'],
    run: async (context) => (await import('./stop.ts')).stop(context),
  },
  status: {
    usage: 'status',
    summary: 'pid, URL and health; exit code 1 when it is down',
    examples: ['svc status', 'svc status --json'],
    usesServer: true,
    run: async (context) => (await import('./status.ts')).status(context),
  },
  doctor: {
    usage: 'doctor',
    summary: 'look at configuration, database and machine; exit code 1 when something is found',
    examples: ['svc doctor', 'svc doctor --json'],
    run: async (context) => (await import('./doctor/doctor.ts')).doctor(context),
  },
  open: {
    usage: 'open',
    summary: 'open the dashboard in the browser, signed in',
    examples: ['svc open', 'svc open --url https://api.example.com --admin-token …'],
    usesServer: true,
    run: async (context) => (await import('./open.ts')).openDashboard(context),
  },
  extensions: {
    usage: 'extensions',
    summary: 'extensions of PostgreSQL: what this database has, could have, and what each is for here',
    examples: ['svc extensions', 'svc extensions --json'],
    run: async (context) => (await import('./extensions/extensions.ts')).listExtensions(context),
  },
  'extensions add': {
    usage: 'extensions add <name> [--from <file.deb or folder>]',
    args: ['name'],
    summary: 'add an extension such as vector to the embedded PostgreSQL',
    examples: ['svc extensions add vector', 'svc extensions add vector --from ./postgresql-18-pgvector.deb'],
    flags: { from: 'string' },
    about: { from: 'a Debian package, or a folder with control file, SQL and library' },
    run: async (context) => (await import('./extensions/extensions.ts')).addExtension(context),
  },
  mcp: {
    usage: 'mcp [--read-only] [--admin]',
    summary: 'connect a local agent over stdio: as you, signed in by the browser; --admin: as the operator',
    examples: ['svc mcp', 'svc mcp --read-only'],
    flags: { admin: 'boolean', 'read-only': 'boolean' },
    about: {
      admin: 'the tools of the operator, with the token of this machine',
      'read-only': 'nothing can be written',
    },
    usesServer: true,
    run: async (context) => (await import('./mcp/mcp.ts')).mcpCommand(context),
  },
  'secrets rotate': {
    examples: ['svc secrets rotate signing-key', 'svc secrets rotate signing-key --compromised'],
    about: { compromised: 'the old key verifies nothing from now on' },
    usage: 'secrets rotate signing-key [--compromised]',
    args: ['what'],
    summary: 'make a new key for access tokens; tokens of the old one stay good unless it is compromised',
    flags: { compromised: 'boolean' },
    usesServer: true,
    run: async (context) => (await import('./rotate-secrets.ts')).rotateSecrets(context),
  },
  'secrets reencrypt': {
    usage: 'secrets reencrypt',
    summary: 'encrypt anew what an old auth.encryption_key encrypted; exit code 1 when something cannot be read',
    examples: ['svc secrets reencrypt', 'svc secrets reencrypt --json'],
    run: async (context) => (await import('./reencrypt.ts')).reencrypt(context),
  },
  cleanup: {
    usage: 'cleanup [<name>]',
    args: ['name?'],
    summary: 'remove what is expired or abandoned; without a name, list what there is',
    examples: ['svc cleanup', 'svc cleanup stale_session_cleanup'],
    run: async (context) => (await import('./cleanup.ts')).cleanup(context),
  },
  version: {
    usage: 'version',
    summary: 'print the version',
    examples: ['svc version', 'svc version --json'],
    run: async (context) => {
      const { version } = await import('./../core/version.ts')
      context.print(context.json ? JSON.stringify({ version }) : version)
      return 0
    },
  },
}
