import { type Sql, sql } from '../sql.ts'

/** Key of the advisory lock that a backup holds: one at a time for each database, from whatever process. */
export const BACKUP_LOCK = 8_121_001

/** One row while a backup of this database is under way. */
export const isBackupUnderWay: Sql = sql`
  select from pg_catalog.pg_locks where locktype = 'advisory' and classid = 0 and objid = ${BACKUP_LOCK}::oid and objsubid = 1
    and granted and database = (select oid from pg_catalog.pg_database where datname = current_database()) limit 1`
