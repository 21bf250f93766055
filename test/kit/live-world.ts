import assert from 'node:assert/strict'
import type { SignedUp, TestServer } from './kit.ts'
import { LiveRows } from './live-list.ts'
import { type Talker, talkTo } from './web-socket.ts'

type Api = Pick<TestServer, 'call' | 'sql' | 'signUp' | 'url'>
// biome-ignore lint/suspicious/noExplicitAny: tests look into messages freely
type Message = any

/** Reproducible: the seed is in every message. */
export function randomFrom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** A list that a user keeps true. `states`: what it answered after each write, and how far the log was then. */
type Watched = {
  readonly who: SignedUp
  readonly collection: string
  readonly query: Record<string, string>
  readonly states: { text: string; logId: bigint }[]
  readonly keyOf: (row: Message) => unknown
}

/** Who may see an item. Other tables decide some of them, and one the table itself. */
const POLICIES = [
  'owner = svc.uid()',
  'owner = svc.uid() or label is null',
  'exists (select from members m where m.team_id = items.team_id and m.person = svc.uid())',
  'team_id in (select m.team_id from members m where m.person = svc.uid())',
  'exists (select from teams t join members m on m.team_id = t.id where t.id = items.team_id and m.person = svc.uid() and t.is_open)',
  'owner = svc.uid() or team_id in (select m.team_id from members m where m.person = svc.uid())',
  'team_id in (select m.team_id from members m where m.person = items.owner)',
  'true',
]
const FILTERS = [
  ...['', 'rank > 3', 'rank >= 2 && rank < 8', "label = 'a' || label = 'b'", 'label = null', 'team_id = 1'],
  ...["team.name = 'red'", 'team.is_open = true && rank != 5', 'rank IN (1,2,3,4)', "parent.label = 'a'"],
]
const SORTS = ['', 'rank', '-rank', 'label,-rank', '-label', 'team_id,rank', '-id']
const NAMES = ['red', 'green', 'blue']

/** Tables, policies, lists and writes, all chosen by a seed. */
export class LiveWorld {
  readonly #random: (below: number) => number
  readonly #seed: number
  readonly users: SignedUp[] = []
  readonly lists: Watched[] = []
  #api: Api
  #lastId = 20

  constructor(api: Api, seed: number) {
    this.#api = api
    this.#seed = seed
    this.#random = randomFrom(seed)
  }

  /** After a server was replaced. */
  use(api: Api): void {
    this.#api = api
  }

  async setUp(users: number, lists: number): Promise<void> {
    for (let n = 0; n < users; n++) this.users.push(await this.#api.signUp(`u${this.#seed}-${n}@x.test`))
    await this.#api.sql(`create table teams (id int primary key, name text, is_open boolean not null default true);
      create table members (team_id int references teams on delete cascade, person uuid, primary key (team_id, person));
      create table items (id int primary key, owner uuid default svc.uid(), team_id int references teams on delete set null,
        rank int not null default 0, label text, parent_id int references items on delete set null on update cascade);
      insert into teams values (1, 'red', true), (2, 'green', false), (3, 'blue', true);
      insert into items (id, owner, team_id, rank, label) select n, '${this.users[0]?.user.id}', 1 + n % 3, n % 10, chr(97 + n % 3)
        from generate_series(1, 20) n;
      alter table items enable row level security;
      create policy writing on items for insert to svc_authenticated with check (true);
      create policy changing on items for update to svc_authenticated using (true);
      create policy removing on items for delete to svc_authenticated using (true);
      create policy reading on items for select to svc_authenticated using (${this.#one(POLICIES)});
      grant all on teams, members, items to svc_authenticated;
      select svc.watch('teams'), svc.watch('members'), svc.watch('items')`)
    for (let n = 0; n < lists; n++) this.lists.push(this.#list())
  }

  /** One more, or another after all were seen. */
  #list(): Watched {
    const who = this.#one(this.users)
    const query: Record<string, string> = { filter: this.#one(FILTERS), perPage: String(1 + this.#random(12)) }
    const common = { who, collection: 'items', query, states: [] }
    if (this.#random(5) === 0) {
      Object.assign(query, { aggregate: 'count,sum(rank)', group: this.#one(['team_id', 'label', 'label,team_id']) })
      const group = (query['group'] ?? '').split(',')
      return { ...common, keyOf: (row) => group.map((name) => row[name]) }
    }
    query['sort'] = this.#one(SORTS)
    if (this.#random(3) === 0) query['expand'] = this.#one(['team', 'parent', 'items', 'team,parent'])
    return { ...common, keyOf: (row) => row.id }
  }

  async look(): Promise<void> {
    const [head] = await this.#api.sql('select coalesce(max(id), 0)::text as id from svc.changes')
    for (const { who, collection, query, states } of this.lists) {
      const answer = await this.#api.call(`GET /api/collections/${collection}?${new URLSearchParams(query)}`, {
        as: who.token,
      })
      assert.equal(answer.status, 200, answer.text)
      states.push({ text: JSON.stringify(answer.body.items), logId: BigInt(head.id) })
    }
  }

  /** One commit of one of the writers; what policies refuse is refused. */
  async write(): Promise<void> {
    const id = 1 + this.#random(this.#lastId)
    const { token, user } = this.#one(this.users)
    const row = {
      rank: this.#random(10),
      label: this.#one(['a', 'b', 'c', null]),
      team_id: 1 + this.#random(3),
      parent_id: null,
    }
    const label = row.label === null ? 'null' : `'${row.label}'`
    switch (this.#random(14)) {
      case 0:
      case 1:
      case 2:
        return void (await this.#api.call('POST /api/collections/items', {
          as: token,
          json: { id: ++this.#lastId, ...row },
        }))
      case 3:
      case 4:
        return void (await this.#api.call(`PATCH /api/collections/items/${id}`, { as: token, json: row }))
      case 5:
        return void (await this.#api.call(`DELETE /api/collections/items/${id}`, { as: token }))
      case 6:
        return void (await this.#api.sql(
          `update items set rank = (rank + 3) % 10, label = ${label} where id % 4 = ${id % 4}`,
        ))
      case 7:
        return void (await this.#api
          .sql(`begin; delete from items where id % 7 = ${id % 7};
          insert into items (id, owner, team_id, rank, label) select ${this.#lastId} + n, '${user.id}', ${row.team_id}, n, ${label} from generate_series(1, 4) n;
          update teams set is_open = not is_open where id = ${row.team_id}; commit`)
          .then(() => (this.#lastId += 4)))
      case 8:
        return void (await this.#api.sql(
          `insert into members values (${row.team_id}, '${user.id}') on conflict do nothing`,
        ))
      case 9:
        return void (await this.#api.sql(
          `delete from members where team_id = ${row.team_id} and person = '${user.id}'`,
        ))
      case 10:
        return void (await this.#api.call(`PATCH /api/collections/teams/${row.team_id}`, {
          as: token,
          json: { name: this.#one(NAMES), is_open: this.#random(2) === 0 },
        }))
      case 11:
        // A key that changes.
        return void (await this.#api.sql(
          `update items set id = ${++this.#lastId}, rank = ${row.rank} where id = ${id}`,
        ))
      case 12:
        return void (await this.#api.sql(`update items set parent_id = ${id}, owner = '${user.id}'
          where id % 5 = ${id % 5} and exists (select from items where id = ${id})`))
      default:
        if (this.#random(3) === 0) return void (await this.#api.sql('truncate items'))
        return void (await this.#api.sql(`alter policy reading on items using (${this.#one(POLICIES)})`))
    }
  }

  #one<T>(choices: readonly T[]): T {
    return choices[this.#random(choices.length)] as T
  }
}

/** A client that keeps all lists of a world, and comes back with its positions when its connection is cut. */
export class LiveWatcher {
  readonly #lists: readonly Watched[]
  readonly #held: { rows: LiveRows; at: number }[]
  #talkers: Talker[] = []
  /** What was wrong, in words. */
  readonly mistakes: string[] = []
  readonly #seen = new Map<Talker, number>()

  constructor(lists: readonly Watched[]) {
    this.#lists = lists
    this.#held = lists.map(({ keyOf }) => ({ rows: new LiveRows(keyOf), at: -1 }))
  }

  async connect(url: string): Promise<void> {
    this.#talkers = []
    for (const [i, { who, collection, query }] of this.#lists.entries()) {
      const talker = await talkTo(url, { token: who.token })
      this.#talkers.push(talker)
      const position = this.#held[i]?.rows.position || undefined
      const reply = await talker.ask({ type: 'live', collection, query, position })
      assert.equal(reply.status, 'ok', JSON.stringify(reply))
    }
  }

  cut(): void {
    for (const talker of this.#talkers) talker.close()
  }

  /** Applies what has come: each state must be one that the list had, none before an earlier one or before its position. */
  check(): void {
    for (const [i, list] of this.#lists.entries()) {
      const held = this.#held[i]
      const talker = this.#talkers[i]
      if (!held || !talker) continue
      const from = this.#seen.get(talker) ?? 0
      this.#seen.set(talker, talker.heard.length)
      for (const message of talker.heard.slice(from)) {
        if (message.type === 'error') this.mistakes.push(JSON.stringify(message))
        if (message.type !== 'rows' && message.type !== 'diff') continue
        held.rows.apply(message)
        const logId = BigInt(message.position.split('-')[1])
        const text = JSON.stringify(held.rows.items)
        // A change of policies is not in the log: several states may be those of one position.
        const known = list.states.findLast((state) => state.logId <= logId)?.logId
        const first = list.states.findIndex((state) => state.logId === known)
        const least = Math.max(held.at, first)
        const at = list.states.findIndex((state, n) => n >= least && state.text === text)
        if (at < 0) this.mistakes.push(`${JSON.stringify(list.query)} after ${JSON.stringify(message)}: ${text}`)
        else held.at = at
      }
    }
  }

  /** Throws until each list is what it was answered last. */
  requireCurrent(): void {
    this.check()
    for (const [i, { query, states }] of this.#lists.entries()) {
      const text = JSON.stringify(this.#held[i]?.rows.items)
      assert.equal(text, states.at(-1)?.text, JSON.stringify(query))
    }
  }
}
