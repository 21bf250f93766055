import type { Command } from './command.ts'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

type Words = {
  readonly first: string
  readonly second: readonly string[]
  readonly flags: readonly string[]
  readonly summary: string
}

/** A script for a shell, to be sourced: `source <(svc completion bash)`. */
export function completionFor(shell: Shell, commands: ReadonlyMap<string, Command>, common: readonly string[]): string {
  const words = wordsOf(commands, common)
  if (shell === 'fish') return fish(words)
  const zsh = shell === 'zsh' ? '#compdef svc\nautoload -U +X compinit bashcompinit && compinit && bashcompinit\n' : ''
  return `${zsh}${bash(words)}`
}

function wordsOf(commands: ReadonlyMap<string, Command>, common: readonly string[]): Words[] {
  const names = [...new Set([...commands.keys()].map((name) => name.split(' ')[0] ?? ''))]
  const help = { first: 'help', second: names, flags: common, summary: 'the options of a command, with examples' }
  const words = names.map((first) => {
    const own = [...commands].filter(([name]) => name === first || name.startsWith(`${first} `))
    const second = own.flatMap(([name]) => name.split(' ')[1] ?? [])
    const flags = own.flatMap(([, { flags = {}, usesServer }]) => [
      ...Object.keys(flags),
      ...(usesServer ? ['url', 'admin-token'] : []),
    ])
    return { first, second, flags: [...new Set([...flags, ...common])], summary: own[0]?.[1].summary ?? '' }
  })
  return [...words, help]
}

const dashed = (flags: readonly string[]): string => flags.map((flag) => `--${flag}`).join(' ')

const bash = (words: readonly Words[]): string => `_svc() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" first="\${COMP_WORDS[1]}" second='' flags=''
  case "$first" in
${words.map(({ first, second, flags }) => `    ${first}) second='${second.join(' ')}'; flags='${dashed(flags)}' ;;`).join('\n')}
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${words.map(({ first }) => first).join(' ')} --help --version' -- "$cur"))
  elif [ "\${cur#-}" != "$cur" ]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  elif [ "$COMP_CWORD" -eq 2 ] && [ -n "$second" ]; then
    COMPREPLY=($(compgen -W "$second" -- "$cur"))
  else
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}
complete -F _svc svc
`

const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

const fish = (words: readonly Words[]): string =>
  [
    ...words.map(
      ({ first, summary }) => `complete -c svc -f -n __fish_use_subcommand -a ${first} -d ${quoted(summary)}`,
    ),
    ...words.flatMap(({ first, second }) =>
      second.length > 0
        ? [
            `complete -c svc -f -n '__fish_seen_subcommand_from ${first}; and test (count (commandline -opc)) -eq 2' -a '${second.join(' ')}'`,
          ]
        : [],
    ),
    ...words.flatMap(({ first, flags }) =>
      flags.map((flag) => `complete -c svc -n '__fish_seen_subcommand_from ${first}' -l ${flag}`),
    ),
    '',
  ].join('\n')
