import type { Schema, Table } from '../schema/snapshot.ts'
import type { Viewer } from '../schema/viewer.ts'

/** A table as one request sees it: with one snapshot and one viewer. */
export type TableView = { readonly schema: Schema; readonly table: Table; readonly viewer: Viewer }
