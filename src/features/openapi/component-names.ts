import type { JsonSchema } from '../../core/json-type.ts'

export type ComponentKind = 'Row' | 'Create' | 'Update' | 'Enum'

/** Turns any name into a unique component name, `[A-Za-z0-9._-]+`. */
export class ComponentNames {
  readonly #taken = new Map<string, string>()

  of(kind: ComponentKind, name: string): string {
    const whole = `${kind}.${name.replace(/[^A-Za-z0-9._-]/g, '_')}`
    for (let n = 1; ; n++) {
      const candidate = n === 1 ? whole : `${whole}-${n}`
      const owner = this.#taken.get(candidate)
      if (owner !== undefined && owner !== name) continue
      this.#taken.set(candidate, name)
      return candidate
    }
  }
}

/** The enums that a part of the document refers to. */
export class Enums {
  readonly components = new Map<string, JsonSchema>()
  readonly #names: ComponentNames

  constructor(names: ComponentNames) {
    this.#names = names
  }

  readonly ref = ({
    type,
    enumValues = [],
  }: {
    type: string
    enumValues?: readonly string[] | undefined
  }): JsonSchema => {
    const key = this.#names.of('Enum', type.replace(/\[\]$/, ''))
    this.components.set(key, { type: 'string', enum: enumValues })
    return ref(key)
  }
}

export const ref = (component: string): JsonSchema => ({ $ref: `#/components/schemas/${component}` })
