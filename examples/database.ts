// Made by `svc types`.
export interface Database {
  tables: {
    tasks: {
      Row: {
        id: number | bigint
        owner: string
        title: string
        done: boolean
        file: string | null
      }
      Insert: {
        owner?: string
        title: string
        done?: boolean
        file?: string | null
      }
      Update: {
        owner?: string
        title?: string
        done?: boolean
        file?: string | null
      }
      Key: number | bigint
      Unique: 'id'
      Relations: Record<never, never>
    }
  }
  enums: Record<never, never>
  functions: Record<never, never>
}
