export function Brand({ env }: { env?: string | undefined }) {
  return (
    <span className="brand">
      <svg width="22" height="22" viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="8" fill="var(--accent)" />
        <path d="M6 14c2-5 18-5 20 0-3 1.500-7 1-10 1s-7 .5-10-1zm9 1h2v8h3v2h-8v-2h3z" fill="var(--on-accent)" />
      </svg>
      Savanna
      {env && <span className="env">{env}</span>}
    </span>
  )
}
