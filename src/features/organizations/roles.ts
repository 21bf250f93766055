import { AppError, badRequest } from '../../core/errors.ts'

export const OWNER = 'owner'

/** The roles of `auth.org_roles`, highest first. */
export class OrgRoles {
  readonly #names: readonly string[]

  constructor(names: readonly string[]) {
    this.#names = names
  }

  check(role: string): string {
    if (!this.#names.includes(role)) throw badRequest(`invalid role: must be ${this.#names.join(', ')}`)
    return role
  }

  /** The role below `owner`, which a former owner gets. */
  get second(): string {
    return this.#names[1] ?? OWNER
  }

  /** Owners decide over every role, others over roles below their own. */
  mayDecideOver(actor: string, role: string): boolean {
    return actor === OWNER || this.#rank(actor) < this.#rank(role)
  }

  requireOver(actor: string, role: string): void {
    if (!this.mayDecideOver(actor, role)) throw insufficientRole()
  }

  /** Whether there is a role below it; such members rename the organisation and see its invitations. */
  requireManager(actor: string): void {
    if (this.#rank(actor) >= this.#names.length - 1 && actor !== OWNER) throw insufficientRole()
  }

  /** A role that is no longer configured ranks lowest. */
  #rank(role: string): number {
    const at = this.#names.indexOf(role)
    return at < 0 ? this.#names.length : at
  }
}

export const insufficientRole = (): AppError =>
  new AppError('forbidden', 'your role in the organization does not allow this')
