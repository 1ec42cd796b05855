// The reader of guides notices what is wrong with one. The planted guides are broken in one way each.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { difference, parse, Reader } from './guide.mjs'

const fence = '```'
const block = (language, code) => `${fence}${language}\n${code}\n${fence}\n`

async function read(text, limitMs) {
  const { blocks, problems } = parse(text)
  const folder = fs.mkdtempSync('/tmp/space-guide-')
  const reader = new Reader(folder, process.env)
  const found = [...problems]
  try {
    for (const one of blocks) found.push(...await reader.run(one, limitMs))
  } finally {
    await reader.close()
    fs.rmSync(folder, { recursive: true })
  }
  return found
}

const sound = [
  'Prose with `code` in it.\n',
  block('sh', 'greeting=hello\nsay() { echo "$greeting $1"; }\ncd /tmp'), block('sh', 'say you\npwd\nfalse || true'), block('text', 'hello you\n/tmp'),
  block('js', "// sum.mjs\nconsole.log(6 * 7, Math.random())"), block('sh', 'cd "$OLDPWD"\nnode sum.mjs; echo warned >&2'), block('text', '42 …\nwarned'),
  block('sh', 'seq 9'), block('text', '1\n…\n9'),
].join('\n')

test('a sound guide is sound: state is kept, output compared, scripts run', async () => {
  assert.deepEqual(await read(sound), [])
  assert.equal(parse(sound).blocks.length, 5)
})

for (const [name, guide, words] of [
  ['a command that does not exist', block('sh', 'echo before\nspace-frobnicate now\necho after'), /line 2: space-frobnicate now: exit code 127/],
  ['a command that fails in the middle', block('sh', 'false\ntrue'), /line 1: false: exit code 1/],
  ['a failure inside a pipe', block('sh', 'false | cat'), /exit code 1/],
  ['a failure inside a function', block('sh', 'f() { false; true; }\nf'), /false: exit code 1/],
  ['a failed substitution', block('sh', 'id=$(false)'), /exit code 1/],
  ['other output than shown', block('sh', 'echo 43') + block('text', '42'), /expected:\n42\nprinted:\n43/],
  ['more output than shown', block('sh', 'seq 3') + block('text', '1\n2'), /expected/],
  ['an exit', block('sh', 'exit 0'), /ended the shell/],
  ['a script that fails', block('js', '// a.mjs\nthrow new Error("planted")') + block('sh', 'node a.mjs'), /planted/],
  ['a script that nothing runs', block('js', '// a.mjs\n1'), /nothing runs a\.mjs/],
  ['a script without a name', block('js', '1'), /begins with/],
  ['a language that is not run', block('python', 'print(1)'), /'python' cannot be run/],
  ['a block without a language', block('', 'ls'), /cannot be run/],
  ['a block without an end', `${fence}sh\nls\n`, /without an end/],
  ['output that belongs to nothing', block('text', '42'), /belongs to the sh block before it/],
]) {
  test(`a broken guide is noticed: ${name}`, async () => {
    const found = await read(guide)
    assert.match(found[0] ?? 'nothing was noticed', words)
  })
}

test('a broken guide is noticed: a command that hangs', async () => {
  assert.match((await read(block('sh', 'sleep 600'), 300))[0], /not done/)
})

test('… is anything in a line, and alone any lines; the rest is literal', () => {
  for (const [expected, actual] of [['i…\n', 'iabc\n'], ['a\n…\nb\n', 'a\nb\n'], ['a\n…\nb', 'a\n1\n2\nb\n'], ['(x) $1.*…', '(x) $1.* yes']])
    assert.equal(difference(expected, actual), undefined, `${expected} | ${actual}`)
  for (const [expected, actual] of [['i…', 'xabc'], ['a.c', 'abc'], ['a', 'a\nb'], ['a…', 'a1\nb'], ['a\n…\nb', 'a\nc']])
    assert.notEqual(difference(expected, actual), undefined, `${expected} | ${actual}`)
})
