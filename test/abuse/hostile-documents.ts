type Document = { query: string; variables?: Record<string, unknown> }

const times = (n: number, make: (i: number) => string): string => Array.from({ length: n }, (_, i) => make(i)).join(' ')
const nested = (n: number, open: string, inner: string, close: string): string =>
  `${open.repeat(n)}${inner}${close.repeat(n)}`
/** Each fragment is the next one twice. */
const laughs = (last: string): string =>
  `{ ...f0 } ${times(30, (i) => `fragment f${i} on Query { ...f${i + 1} ...f${i + 1} }`)} fragment f30 on Query { ${last} }`

/** Documents over a table `posts` that has a column `id`, made to cost more than they should. */
export const HOSTILE_DOCUMENTS: Readonly<Record<string, Document>> = {
  'a megabyte of opening braces': { query: '{'.repeat(1_000_000) },
  'a megabyte of nested lists': { query: `{ posts(where: ${nested(500_000, '[', '', ']')}) { id } }` },
  'a megabyte of closing braces': { query: `{ posts { id } ${'}'.repeat(1_000_000)}` },
  'a megabyte of comments': { query: `{ posts { id } ${'#\n'.repeat(320_000)} }}` },
  'a megabyte of commas': { query: `{ posts { id ${','.repeat(1_000_000)} }}}` },
  'a megabyte of text in quotes': { query: `{ posts(where: {id: {_eq: "${'x'.repeat(1_000_000)}"}}) { id } }` },
  'a megabyte of escapes': { query: `{ posts(where: {id: {_eq: "${'\\u0041'.repeat(140_000)}"}}) { id } }` },
  'a megabyte of lines in a block of text': {
    query: `{ posts(where: {id: {_eq: """${' \n'.repeat(240_000)}"""}}) { id } }`,
  },
  'one name of a megabyte': { query: `{ ${'x'.repeat(1_000_000)} }` },
  'a number of a megabyte': { query: `{ posts(limit: ${'1'.repeat(1_000_000)}) { id } }` },
  'a hundred thousand fields': { query: `{ posts { ${'id '.repeat(100_000)} } }` },
  'a hundred thousand aliases': { query: `{ posts { ${times(100_000, (i) => `a${i}:id`)} } }` },
  'as many aliases as tokens allow': { query: `{ posts { ${times(6_500, (i) => `a${i}:id`)} b: x } }` },
  'as many unknown fields as tokens allow': { query: `{ posts { ${times(19_000, (i) => `nobody${i}`)} } }` },
  'as many root fields as tokens allow': { query: `{ ${times(3_300, (i) => `a${i}:posts{id}`)} }` },
  'ten thousand directives': { query: `{ posts { id ${'@a '.repeat(9_990)} } }` },
  'ten thousand known directives': { query: `{ posts { id ${'@skip(if:true) '.repeat(3_300)} } }` },
  'a hundred levels of relations': { query: `{ posts { ${nested(190, 'id:id posts { ', 'id', ' }')} } }` },
  'a cycle of two fragments': {
    query: '{ posts { ...a } } fragment a on posts { ...b } fragment b on posts { ...a }',
  },
  'a cycle of two thousand fragments': {
    query: `{ posts { ...f0 } } ${times(2_000, (i) => `fragment f${i} on posts { ...f${(i + 1) % 2_000} }`)}`,
  },
  'cycles of everything with everything': {
    query: `{ posts { ...f0 } } ${times(90, (i) => `fragment f${i} on posts { ${times(90, (k) => `...f${k}`)} }`)}`,
  },
  'a billion laughs': { query: laughs('posts { id }') },
  'a billion laughs about the schema': { query: laughs('__schema { queryType { name } }') },
  'a billion laughs about nothing': { query: laughs('posts @skip(if: true) { id }') },
  'many operations that each spread a long chain': {
    query: `${times(1_000, (i) => `query q${i} { ...f0 }`)} ${times(1_000, (i) => `fragment f${i} on Query { ${i < 999 ? `...f${i + 1}` : 'x'} }`)}`,
  },
  'many operations with many variables': {
    query: times(200, (i) => `query q${i}(${times(15, (k) => `$v${k}: Int`)}) { posts { id } }`),
  },
  'a chain of fragments with variables': {
    query: `${times(400, (i) => `query q${i}($a: Int) { ...f0 }`)} ${times(900, (i) => `fragment f${i} on Query { x(a: $a) ${i < 899 ? `...f${i + 1}` : 'x'} }`)}`,
  },
  'two hundred levels of not': { query: `{ posts(where: ${nested(150, '{_not: ', '{x: 1}', '}')}) { id } }` },
  'a deep input in variables': {
    query: 'query q($w: posts_where) { posts(where: $w) { id } }',
    variables: { w: JSON.parse(nested(80, '{"_not":', '{"id":{}}', '}')) },
  },
  'a wide input in variables': {
    query: 'query q($w: [posts_where!]) { posts(where: {_or: $w}) { id } }',
    variables: { w: Array.from({ length: 50_000 }, () => ({ nobody: {} })) },
  },
  'a list of values in variables': {
    query: 'query q($w: posts_where) { posts(where: $w) { id } }',
    variables: { w: { id: { _in: Array.from({ length: 200_000 }, () => 'x') } } },
  },
  'as many keys in variables as fit': {
    query: 'query q($w: posts_where) { posts(where: $w) { id } }',
    variables: { w: Object.fromEntries(Array.from({ length: 55_000 }, (_, i) => [`nobody${i}`, 1])) },
  },
  'as many numbers in variables as fit': {
    query: 'query q($w: posts_where) { posts(where: $w) { id } }',
    variables: { w: { id: { _in: Array.from({ length: 300_000 }, () => 1) } } },
  },
  'as many conditions in variables as fit': {
    query: 'query q($w: posts_where) { posts(where: $w) { id } }',
    variables: { w: { _or: Array.from({ length: 50_000 }, () => ({ id: { _eq: 1 } })) } },
  },
  'a few thousand conditions': {
    query: 'query q($w: posts_where) { posts(where: $w) { id } }',
    variables: { w: { _or: Array.from({ length: 3_000 }, () => ({ id: { _eq: 1 } })) } },
  },
  'twelve thousand sort keys': {
    query: 'query q($o: [posts_order_by!]) { posts(order_by: $o) { id } }',
    variables: { o: Array.from({ length: 12_000 }, () => ({ id: 'ASC' })) },
  },
  'one variable in two hundred fields': {
    query: `query q($w: posts_where) { ${times(200, (i) => `a${i}: posts(where: $w) { id }`)} }`,
    variables: { w: { _or: Array.from({ length: 1_000 }, () => ({ id: { _eq: 1 } })) } },
  },
  'one list of rows in two hundred inserts': {
    query: `mutation q($o: [posts_insert_input!]!) { ${times(200, (i) => `a${i}: insert_posts(objects: $o) { affected_rows }`)} }`,
    variables: { o: Array.from({ length: 10_000 }, (_, i) => ({ id: i })) },
  },
  'a long default in two hundred fields': {
    query: `query q($w: posts_where = {id: {_in: [${times(9_000, String)}]}}) { ${times(200, (i) => `a${i}: posts(where: $w) { id }`)} }`,
  },
  'a long literal, spread often': {
    query: `{ ${times(200, (i) => `a${i}: posts { id ...f }`)} } fragment f on posts { posts(where: {id: {_in: [${times(9_000, String)}]}}) { id } }`,
  },
  'the schema a thousand times': { query: `{ ${times(1_000, (i) => `a${i}: __schema { types { name } }`)} x }` },
  'the fields of every type a thousand times': {
    query: `{ __schema { types { ${times(1_000, (i) => `a${i}: fields { name }`)} } } x }`,
  },
  'fields of the types of fields': {
    query: `{ __schema { types { ${nested(40, 'fields { type { ', 'name', ' } }')} } } }`,
  },
}
