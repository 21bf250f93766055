/** Control characters, what turns text around, and halves of characters: a name that others read has none of them. */
export const hasUnprintable = (text: string): boolean => /[\p{C}\p{Zl}\p{Zp}]/u.test(text)
