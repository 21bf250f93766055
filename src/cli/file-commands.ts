import type { Command } from './command/command.ts'

export const fileCommands: Readonly<Record<string, Command>> = {
  'sites deploy': {
    usage: 'sites deploy <dir> --site <slug>',
    args: ['dir'],
    summary: 'upload what changed in a folder and make it live',
    examples: [
      'svc sites deploy dist --site shop',
      'svc sites deploy public --site docs --url https://api.example.com',
    ],
    about: { site: 'the slug of the site' },
    flags: { site: 'string' },
    usesServer: true,
    run: async (context) => (await import('./files/deploy.ts')).deploy(context),
  },
  'storage ls': {
    usage: 'storage ls <bucket> [<prefix>]',
    args: ['bucket', 'prefix?'],
    summary: 'list files of a bucket',
    examples: ['svc storage ls photos', 'svc storage ls photos 2026/'],
    usesServer: true,
    run: async (context) => (await import('./files/storage.ts')).listFiles(context),
  },
  'storage get': {
    usage: 'storage get <bucket>/<name> [<file>]',
    args: ['file', 'to?'],
    summary: 'download a file; - writes it to stdout',
    examples: ['svc storage get photos/cat.jpg', 'svc storage get photos/cat.jpg - > cat.jpg'],
    usesServer: true,
    run: async (context) => (await import('./files/storage.ts')).getFile(context),
  },
  'storage put': {
    usage: 'storage put <file> <bucket>[/<name>]',
    args: ['file', 'to'],
    summary: 'upload a file',
    examples: ['svc storage put cat.jpg photos', 'svc storage put cat.jpg photos/pets/cat.jpg'],
    usesServer: true,
    run: async (context) => (await import('./files/storage.ts')).putFile(context),
  },
}
