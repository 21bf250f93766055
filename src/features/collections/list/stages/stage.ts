import type { Candidates } from '../../../../db/search/candidates.ts'
import type { TextSearchConfig } from '../../../../db/search/search-text.ts'
import type { Sql } from '../../../../db/sql.ts'

/** Dependencies of the stages. */
export type ListDeps = {
  readonly candidates: Candidates
  /** `api.text_search_config` */
  readonly textSearchConfig: TextSearchConfig
}

/**
 * What search, facets or spatial parameters add to the statement of a list. Their SQL reads the row as `svc_t`. A list may
 * have several stages: their conditions are combined, and their sort keys apply in order.
 */
export type Stage = {
  /** Added to the conditions of the filter. */
  readonly conditions?: readonly Sql[]
  /** Sort keys, before those of `sort`. */
  readonly order?: readonly Sql[]
  /** Additional keys of an item: `expression as "_distance"`. */
  readonly keys?: readonly Sql[]
  /** Additional keys of the response, as JSON text such as `',"facets":', …`; `rows` is a FROM with its WHERE. */
  readonly envelope?: (rows: Sql) => Sql
  /**
   * Columns computed once per row, `expression as svc_rank`. The rows are then materialized and shared by the page, the
   * total and the envelope.
   */
  readonly computed?: readonly Sql[]
  /**
   * If a policy keeps PostgreSQL from using an index: a `tid[]` of all rows that may match the conditions
   * (src/db/search/candidates.ts), or NULL if there are too many. The conditions are still checked.
   */
  readonly candidates?: Sql
}
