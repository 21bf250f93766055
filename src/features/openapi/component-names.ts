import type { JsonSchema } from '../../core/json-type.ts'

export type ComponentKind = 'Row' | 'Create' | 'Update' | 'Enum'

/** Names of components are `[A-Za-z0-9._-]+`; those of tables are anything. Different things never share a name. */
export class ComponentNames {
  readonly #taken = new Map<string, string>()

  of(kind: ComponentKind, name: string): string {
    const whole = `${kind}.${name.replace(/[^A-Za-z0-9._-]/g, '_')}`
    for (let n = 1; ; n++) {
      const wanted = n === 1 ? whole : `${whole}-${n}`
      const owner = this.#taken.get(wanted)
      if (owner !== undefined && owner !== name) continue
      this.#taken.set(wanted, name)
      return wanted
    }
  }
}

export const ref = (component: string): JsonSchema => ({ $ref: `#/components/schemas/${component}` })
