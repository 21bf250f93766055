/** Every constant of the pool, with its reason. Milliseconds where the name ends in MS. */

/**
 * Reads on the wire of one connection. With sixteen instead of four PostgreSQL and the server go to sleep less often:
 * list 0.49 to 0.68, read by id 0.68 to 0.87 of a bare handler (two cores, 32 clients, medians of five).
 */
export const PIPELINE_DEPTH = 16
/** Reads on each connection before another one is put to work beside it: waking a process costs more than a short read. */
export const PIPELINE_SPREAD = 4

/**
 * Below this a read costs Node as much as PostgreSQL, and on one machine a further backend only takes turns with Node. On
 * two cores, one backend instead of two: read by id 0.83 to 0.99 of a bare handler, list 0.71 to 0.81; a list of 1.8 ms
 * needs both.
 */
export const SHORT_READ_MS = 0.5
export const ANSWERS_AVERAGED = 64

/**
 * PostgreSQL's `statement_timeout` for reads that share a connection, and for the first flight of an unknown read. What
 * waits behind a read that turns out slow waits no longer than this. Short lists take 1 to 5 ms.
 */
export const READ_LIMIT_MS = 50
/**
 * The same for a write on a connection of the reserve, and for a small one that may share its connection; others are at work for
 * 1 to 20 ms unless they wait for a lock.
 */
export const SHORT_WRITE_LIMIT_MS = 200
/** PostgreSQL's `lock_timeout` for small writes that may share a connection: what is behind one waits no longer for its lock. */
export const SHARED_LOCK_MS = 20
/** A read that was too long is flown as slow work for so long before it is tried again. */
export const SLOW_FOR_MS = 10_000
/** Statements that are known to be slow at most; their texts are kept. */
export const MAX_KNOWN_SLOW = 1_000

/**
 * Small writes on the wire of one connection; more wait in the server, for whichever connection is free first. Create is 0.58, 0.64
 * and 0.60 of a bare handler with 4, 8 and 16, but a backend that has to wait for a processor holds up as many: p99 20, 37 and 147 ms.
 */
export const ROW_DEPTH = 4
/** A larger write may take long, and has a connection to itself. */
export const SMALL_WRITE_BYTES = 64 * 1024

/** How long a flight waits for a lock, and for its turn to write to a row. */
export const LOCK_TIMEOUT_MS = 8_000

/** The same for one that gives way, which then begins again: PostgreSQL looks for a deadlock after a second (`deadlock_timeout`). */
export const GIVE_WAY_MS = 400

/**
 * Writes at work at the same time for each core, where PostgreSQL is on the machine of this process. More backends than
 * that only take turns: with 8 instead of 19 on two cores a create takes PostgreSQL 150 µs instead of 220.
 */
export const WRITERS_PER_CORE = 4
/**
 * When nearly all small writes take longer than this on a connection for each core, they wait for the disk, and are spread over
 * as many as other writes for a while. Without such waits two connections are better than eight on two cores: with sixteen writes on each,
 * create is 0.71 instead of 0.57 of a bare handler, p99 18 to 27 ms instead of 95 to 185.
 */
export const LONG_WRITE_MS = 1
export const MOSTLY = 0.8
export const SPREAD_FOR_MS = 10_000
/** A write that is at work for longer no longer counts as one of these: it may wait for a lock, and then needs no core. */
export const USUAL_WRITE_MS = 20

/**
 * Processor time after which a statement that has its connection to itself is given less of the processor, and its nice value
 * then: of a processor that others want it gets a third, later a tenth. Ordinary statements take 1 to 5 ms. p99 of ordinary calls
 * beside everything that `npm run bench storm` does was 321 ms without it. With 10 at once, statements of 100 ms took 3 to 7 s on a
 * machine that others use entirely, and checks of realtime were cut at 5 s; with 19, a seventieth, long ones did not come to an end.
 */
export const LONG_STATEMENT_STEPS = [
  { afterMs: 30, nice: 5 },
  { afterMs: 250, nice: 10 },
] as const
/** How often that is looked at. */
export const LONG_STATEMENT_TICK_MS = 25

/** How often waiting flights are checked while there are any. */
export const TICK_MS = 20
/** A connection that rested for so long is closed when the other login needs room: to open one takes 5 to 20 ms. */
export const REBALANCE_IDLE_MS = 100
/** A connection that rested for so long is closed, down to `min_conns`. */
export const IDLE_CLOSE_MS = 60_000
export const TRIM_EVERY_MS = 15_000

/** Times between attempts to reach a database that is away: its return, or another primary, is noticed soon. */
export const FIRST_BACKOFF_MS = 50
export const LOOK_AGAIN_MS = 250
/** How long one of several hosts may take to answer, and how long the others are waited for once one has. */
export const LOOK_TIMEOUT_MS = 2_000
export const OTHERS_MS = 300
/** How often the other hosts are looked at for a primary of a later timeline. */
export const SUPERSEDED_EVERY_MS = 2_000
/** After a connection was lost: by then it is known whether the database is. */
export const LOST_MS = 50
/** A flight that was lost with its connection is flown again so many times. */
export const MAX_REFLIGHTS = 8
export const MAX_RETRIES = 3
/** Times this, times the number of tries: flights that met in a deadlock do not meet again. */
export const RETRY_SPREAD_MS = 20

export const PING_EVERY_MS = 1_000
/** Silence is counted in turns of the event loop, because a blocked process cannot receive a reply. */
export const SILENCE_TICK_MS = 250
/** /health turns after this many without an answer: 2.5 s. */
export const UNREACHABLE_TICKS = 10
/** Flights are given up after this many, 8 s: PostgreSQL hangs, or the network swallows packets. */
export const HUNG_TICKS = 32
/** The same for a replica, whose flights are then flown on the primary: within 5 s. */
export const HUNG_REPLICA_TICKS = 15

/**
 * The first statement of a connection. glibc gives the memory of each statement back to the system, and asks for it again
 * for the next, until a block of this size was freed: from then on it keeps up to twice as much. For a list of twenty rows
 * that is a sixth of its time (33 µs of system time, then 8). PostgreSQL repeats a character one by one, which for the
 * whole block took 7 ms; a block of blocks takes 0.6.
 */
export const WARMING = `select pg_catalog.octet_length(pg_catalog.repeat(pg_catalog.repeat(' ', 1024), 512))`
