/**
 * Control characters, what turns text around, and halves of characters: a name that others read has none of them. The joiners
 * belong to words of Persian and Hindi, and to emoji.
 */
export const hasUnprintable = (text: string): boolean => /(?![\u200c\u200d])[\p{C}\p{Zl}\p{Zp}]/u.test(text)
