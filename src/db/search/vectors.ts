import type { Column } from '../schema/snapshot.ts'

/** `real[]` or `double precision[]`, which can be searched as vectors without an extension, row by row. */
export const isNumberArray = ({ baseType }: Column): boolean => baseType === '_float4' || baseType === '_float8'

/** A column that vector search can use. */
export const holdsVectors = (column: Column): boolean => column.isVector || isNumberArray(column)

/** Numbers as PostgreSQL reads a value of the column. */
export const vectorText = (column: Column, numbers: readonly number[]): string =>
  column.isVector ? `[${numbers.join()}]` : `{${numbers.join()}}`

export const notAVector = (name: string): string => `column "${name}" is not a vector column`
