/** People write codes in groups. */
export const typedCode = (code: string): string => code.replace(/\s/g, '')
