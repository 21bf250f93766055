/** NUL and halves of surrogate pairs, as JSON.stringify writes them. */
const IN_JSON = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/

/** Whether jsonb takes this text of JSON.stringify. */
export const isStorableJson = (json: string): boolean => !IN_JSON.test(json)

/** PostgreSQL takes no NUL, and all halves of surrogate pairs would be stored as one character. */
export const isStorableText = (text: string): boolean => !/[\0\p{Surrogate}]/u.test(text)
