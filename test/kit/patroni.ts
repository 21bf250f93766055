import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { atEnd } from './at-end.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'

const PACKAGES = [
  ...[
    'patroni',
    'etcd-server',
    'haproxy',
    'liblua5.3-0',
    'libopentracing-c-wrapper0',
    'libopentracing1',
    'python3-psycopg2',
    'python3-click',
    'python3-prettytable',
  ],
  ...['python3-dateutil', 'python3-urllib3', 'python3-yaml', 'python3-six', 'python3-wcwidth', 'python3-etcd'],
  ...['python3-psutil', 'python3-dnspython', 'python3-cdiff'],
]
const BIN_DIR = '/usr/lib/postgresql/15/bin'
const NOBODY = { uid: 65534, gid: 65534 }

/** Why there is none; false when there is. The packages are Debian's, unpacked and not installed. */
export const noPatroni: string | false =
  process.getuid?.() === 0 && existsSync('/usr/bin/apt-get') && existsSync(`${BIN_DIR}/pg_basebackup`)
    ? false
    : 'Patroni is run by root on Debian with PostgreSQL 15'

export type PatroniNode = {
  readonly name: string
  readonly port: number
  readonly rest: number
  start(): void
  /** Throws while its PostgreSQL takes no writes. */
  isPromoted(): Promise<void>
  /** Patroni and PostgreSQL at once, as a machine that lost its power. */
  kill(): Promise<void>
}

export type PatroniCluster = {
  readonly nodes: readonly PatroniNode[]
  /** Through HAProxy, which knows the leader. */
  readonly url: string
  /** Of every host, past HAProxy. */
  readonly hostsUrl: string
  leader(): Promise<PatroniNode | undefined>
  /** A leader, and a synchronous standby that takes over without loss. */
  isWhole(): Promise<void>
}

export async function startPatroni(): Promise<PatroniCluster> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-patroni-'))
  chmodSync(folder, 0o777)
  atEnd(() => rmSync(folder, { recursive: true, force: true }))
  const debs = join(folder, 'debs')
  mkdirSync(debs, { mode: 0o777 })
  execFileSync('apt-get', ['-q', '-o', 'APT::Sandbox::User=root', 'download', ...PACKAGES], {
    cwd: debs,
    stdio: 'ignore',
  })
  const root = join(folder, 'root')
  for (const name of readdirSync(debs)) execFileSync('dpkg', ['-x', join(debs, name), root])
  chmodSync(root, 0o755)
  const env = {
    PATH: `${BIN_DIR}:/usr/bin:/bin`,
    HOME: folder,
    LC_ALL: 'C.UTF-8',
    PYTHONPATH: join(root, 'usr/lib/python3/dist-packages'),
    LD_LIBRARY_PATH: join(root, 'usr/lib/x86_64-linux-gnu'),
  }
  const running = new Set<ChildProcess>()
  const run = (program: string, args: string[]): ChildProcess => {
    const child = spawn(program, args, { ...NOBODY, cwd: folder, env, detached: true, stdio: 'ignore' })
    running.add(child)
    child.once('exit', () => running.delete(child))
    return child
  }
  const end = (child: ChildProcess): void => {
    try {
      if (child.pid) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // It has ended.
    }
  }
  atEnd(async () => {
    for (const child of running) end(child)
    await eventually(() => {
      if (running.size > 0) throw new Error('still running')
    })
  })

  const ports: number[] = []
  while (ports.length < 8) ports.push(await freePort())
  const [etcd = 0, peer = 0, front = 0] = ports
  const owned = (name: string): string => {
    const dir = join(folder, name)
    mkdirSync(dir, { mode: 0o700 })
    chownSync(dir, NOBODY.uid, NOBODY.gid)
    return dir
  }
  const at = (port: number): string => `http://127.0.0.1:${port}`
  run(join(root, 'usr/bin/etcd'), [
    ...['--data-dir', owned('etcd'), '--listen-client-urls', at(etcd), '--advertise-client-urls', at(etcd)],
    ...[
      '--listen-peer-urls',
      at(peer),
      '--initial-advertise-peer-urls',
      at(peer),
      '--initial-cluster',
      `default=${at(peer)}`,
    ],
  ])
  const nodes = [0, 1].map((i): PatroniNode => {
    const [name, port, rest] = [`node${i}`, ports[3 + i] ?? 0, ports[5 + i] ?? 0]
    const file = join(folder, `${name}.yml`)
    writeFileSync(file, configuration({ name, port, rest, etcd, dataDir: join(owned(name), 'data') }))
    let child: ChildProcess | undefined
    return {
      name,
      port,
      rest,
      start: () => {
        child = run('/usr/bin/python3', [join(root, 'usr/bin/patroni'), file])
      },
      isPromoted: async () => {
        const client = await openConnection({ url: `postgres://postgres@127.0.0.1:${port}/postgres` })
        try {
          const { rows } = await client.query<{ recovers: string }>('select pg_is_in_recovery() as recovers')
          if (rows[0]?.recovers !== 'f') throw new Error('still a standby')
        } finally {
          await client.end()
        }
      },
      kill: async () => {
        const dying = child
        if (!dying) return
        // PostgreSQL is in a session of its own.
        const pid = execFileSync('sh', ['-c', `head -n 1 ${join(folder, name, 'data/postmaster.pid')} || true`], {
          encoding: 'utf8',
        }).trim()
        end(dying)
        if (pid) process.kill(Number(pid), 'SIGKILL')
        await eventually(() => {
          if (running.has(dying)) throw new Error('still running')
        })
      },
    }
  })
  for (const node of nodes) node.start()
  const proxy = join(folder, 'haproxy.cfg')
  writeFileSync(proxy, proxyConfiguration(front, nodes))
  run(join(root, 'usr/sbin/haproxy'), ['-f', proxy])

  const says = async (node: PatroniNode, role: string): Promise<boolean> =>
    fetch(`${at(node.rest)}/${role}`, { signal: AbortSignal.timeout(1_000) }).then(
      ({ status }) => status === 200,
      () => false,
    )
  const leader = async (): Promise<PatroniNode | undefined> => {
    for (const node of nodes) if (await says(node, 'primary')) return node
    return undefined
  }
  return {
    nodes,
    url: `postgres://postgres@127.0.0.1:${front}/postgres`,
    hostsUrl: `postgres://postgres@${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}/postgres`,
    leader,
    async isWhole() {
      await eventually(
        async () => {
          const all = await Promise.all(nodes.flatMap((node) => [says(node, 'primary'), says(node, 'sync')]))
          if (all.filter(Boolean).length !== 2) throw new Error('no leader with a synchronous standby')
        },
        { seconds: 180 },
      )
    },
  }
}

/** Its smallest ttl is 20 seconds. */
const configuration = (node: { name: string; port: number; rest: number; etcd: number; dataDir: string }): string => `
scope: svc
name: ${node.name}
restapi: { listen: '127.0.0.1:${node.rest}', connect_address: '127.0.0.1:${node.rest}' }
etcd3: { hosts: ['127.0.0.1:${node.etcd}'] }
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 5
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      parameters: { max_connections: 100, wal_keep_size: 256MB, wal_log_hints: 'on' }
  initdb: [{ encoding: UTF8 }, { locale: C.UTF-8 }, { auth: trust }]
  pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']
postgresql:
  listen: '127.0.0.1:${node.port}'
  connect_address: '127.0.0.1:${node.port}'
  data_dir: ${node.dataDir}
  bin_dir: ${BIN_DIR}
  authentication:
    superuser: { username: postgres, password: unused }
    replication: { username: replicator, password: unused }
    rewind: { username: postgres, password: unused }
  pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']
  parameters: { unix_socket_directories: '' }
`

const proxyConfiguration = (port: number, nodes: readonly PatroniNode[]): string => `
defaults
  mode tcp
  timeout connect 2s
  timeout client 1h
  timeout server 1h
listen primary
  bind 127.0.0.1:${port}
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 200ms fall 2 rise 1 on-marked-down shutdown-sessions
${nodes.map((node) => `  server ${node.name} 127.0.0.1:${node.port} check port ${node.rest}`).join('\n')}
`
