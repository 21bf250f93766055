/** How often a test of faults does its worst: once in `npm test`, ten times and with more load in `npm run test:faults`. */
export const ROUNDS = Number(process.env['FAULT_ROUNDS'] ?? 1)
export const isLong: boolean = ROUNDS > 1
