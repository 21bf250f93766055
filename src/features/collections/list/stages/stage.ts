import type { Candidates } from '../../../../db/search/candidates.ts'
import type { TextSearchConfig } from '../../../../db/search/search-text.ts'
import type { Sql } from '../../../../db/sql.ts'

/** What stages are made with. */
export type ListDeps = {
  readonly candidates: Candidates
  /** `api.text_search_config` */
  readonly textSearchConfig: TextSearchConfig
}

/**
 * What search, vectors or places on the map add to the statement of a list. Their texts read the row as `svc_t`.
 * A list may have several: each one narrows it, and their keys of order count in turn.
 */
export type Stage = {
  /** Conditions beside the filter's. */
  readonly conditions?: readonly Sql[]
  /** Keys of order, before those of `sort`. */
  readonly order?: readonly Sql[]
  /** Keys of an item beyond its columns: `expression as "_distance"`. */
  readonly keys?: readonly Sql[]
  /** Keys of the answer: text of JSON such as `',"facets":', …`, over the rows of the list (a FROM with its WHERE). */
  readonly envelope?: (rows: Sql) => Sql
  /**
   * Worked out once for every row found, `expression as svc_rank`, and then a column of the row. With any of these the
   * rows are found once, for the page, the total and the envelope together.
   */
  readonly worked?: readonly Sql[]
  /**
   * Where a policy keeps PostgreSQL from an index: a `tid[]` of all rows of the table that may fulfil the conditions
   * (src/db/search/candidates.ts), or NULL when they are too many to name. The conditions still decide.
   */
  readonly candidates?: Sql
}
