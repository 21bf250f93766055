import * as t from '../../core/json-type.ts'

/** The contract of GET /api/schema; document.ts makes the response. */

const column = t.object({
  name: t.string(),
  position: t.integer(),
  type: t.string({ description: 'as PostgreSQL writes it' }),
  nullable: t.boolean(),
  default: t.optional(t.string()),
  comment: t.optional(t.string()),
  isPrimaryKey: t.boolean(),
  isGenerated: t.boolean({ description: 'PostgreSQL gives its values and takes no other' }),
  isIdentity: t.boolean(),
  isGeometry: t.boolean(),
  isGeography: t.boolean(),
  isVector: t.boolean(),
  vectorDim: t.optional(t.integer()),
  geometryType: t.optional(t.string()),
  srid: t.optional(t.integer()),
  coordDimension: t.optional(t.integer()),
  jsonType: t.oneOf(['boolean', 'integer', 'number', 'object', 'array', 'string']),
  enumValues: t.optional(t.array(t.string())),
})

const foreignKey = t.object({
  constraintName: t.string(),
  columns: t.array(t.string()),
  referencedSchema: t.string(),
  referencedTable: t.string(),
  referencedColumns: t.array(t.string()),
  onUpdate: t.string(),
  onDelete: t.string(),
})

const index = t.object({
  name: t.string(),
  isUnique: t.boolean(),
  isPrimary: t.boolean(),
  method: t.string(),
  columns: t.array(t.string()),
  definition: t.string(),
})

const relationship = t.object({
  name: t.string(),
  type: t.oneOf(['many-to-one', 'one-to-many']),
  fromSchema: t.string(),
  fromTable: t.string(),
  fromColumns: t.array(t.string()),
  toSchema: t.string(),
  toTable: t.string(),
  toColumns: t.array(t.string()),
  fieldName: t.string({ description: 'its name in `expand` and in filters' }),
})

const policy = t.object({
  name: t.string(),
  command: t.string(),
  permissive: t.boolean(),
  roles: t.array(t.string()),
  usingExpr: t.nullable(t.string()),
  withCheckExpr: t.nullable(t.string()),
})

const table = t.object({
  schema: t.string(),
  name: t.string(),
  kind: t.oneOf(['table', 'view', 'materialized_view', 'partitioned_table', 'foreign_table']),
  comment: t.optional(t.string()),
  columns: t.array(column),
  primaryKey: t.array(t.string()),
  foreignKeys: t.optional(t.array(foreignKey)),
  checkConstraints: t.optional(t.array(t.object({ name: t.string(), definition: t.string() }))),
  indexes: t.optional(t.array(index)),
  relationships: t.optional(t.array(relationship)),
  rlsEnabled: t.boolean(),
  rlsPolicies: t.optional(t.array(policy, { description: 'shown to the admin alone' })),
})

const overload = {
  schema: t.string(),
  name: t.string(),
  comment: t.optional(t.string()),
  parameters: t.array(
    t.object({
      name: t.string(),
      type: t.string(),
      position: t.integer(),
      hasDefault: t.boolean(),
      isVariadic: t.optional(t.boolean()),
    }),
  ),
  returnType: t.string(),
  returnsSet: t.boolean(),
  isVoid: t.boolean(),
}

export const schemaAnswer = t.object({
  tables: t.record(table, { description: 'by `schema.table`' }),
  functions: t.record(t.object({ ...overload, overloads: t.optional(t.array(t.object(overload))) })),
  schemas: t.array(t.string()),
  hasPostGIS: t.boolean(),
  postGISVersion: t.optional(t.string()),
  hasPgVector: t.boolean(),
  hasPgTrgm: t.boolean(),
  builtAt: t.time(),
})
