// Names and links meant to lead out of the sandbox: through the file API and `space cp`. Nothing of the host is read or
// changed; the same trick aimed at a file of the guest works, so that it would be seen.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { apiUrl, dataPlaneHeaders, Sandbox } from '../../e2b/sdk.mjs'
import { space } from '../../system/cli.mjs'
import { quietTable, settled } from '../../system/machine.mjs'

let table, sandbox, headers, host
const secret = `canary of the host ${Math.random()}`
before(async () => {
  table = await quietTable()
  sandbox = await Sandbox.create({ timeoutMs: 1_800_000 })
  headers = await dataPlaneHeaders(sandbox)
  host = fs.mkdtempSync('/tmp/space-canary-')
  fs.writeFileSync(`${host}/canary`, secret)
  fs.utimesSync(`${host}/canary`, 1, 1)
})
after(async () => {
  await sandbox?.kill()
  await settled(table)
  fs.rmSync(host, { recursive: true })
})
const untouched = () => {
  assert.equal(fs.readFileSync(`${host}/canary`, 'utf8'), secret)
  assert.equal(fs.statSync(`${host}/canary`).mtimeMs, 1000)
  assert.deepEqual(fs.readdirSync(host), ['canary'])
}
const query = (path) => `${apiUrl}/files?username=root&path=${encodeURIComponent(path)}`
const read = async (path) => { const answer = await fetch(query(path), { headers }); return { status: answer.status, text: await answer.text() } }
async function write(path, text) {
  const form = new FormData()
  form.append('file', new Blob([text]), path)
  const answer = await fetch(query(path), { method: 'POST', headers, body: form })
  await answer.text()
  return answer.status
}
const root = (command) => sandbox.commands.run(command, { user: 'root' })

test('paths and links to a file of the host find the guest\'s own, or nothing', async () => {
  const target = `${host}/canary`
  const tricks = {
    plain: target, 'dot dot': `../../../../../../..${target}`, 'from a folder': `/home/user/../../../../..${target}`, slashes: `//${target}`,
    'process 1': `/proc/1/root${target}`, self: `/proc/self/root${target}`, 'a working folder': `/proc/1/cwd/../../..${target}`,
    'a link': '/tmp/link', 'a link of links': '/tmp/links', 'a linked folder': '/tmp/folder/canary',
  }
  await root(`ln -s ${target} /tmp/link; ln -s /tmp/link /tmp/links; ln -s ${host} /tmp/folder`)
  for (const [name, path] of Object.entries(tricks)) {
    const got = await read(path)
    assert.ok(!got.text.includes(secret), `${name} reads the host's file`)
    assert.ok(got.status >= 400, `${name}: ${got.status}`)
  }
  // The same names where the guest has such a file.
  await root(`mkdir -p ${host}; echo canary of the guest > ${target}`)
  for (const [name, path] of Object.entries(tricks)) assert.equal((await read(path)).text, 'canary of the guest\n', name)
  for (const [name, path] of Object.entries(tricks)) {
    const status = await write(path, name)
    if (status === 200) assert.equal((await root(`cat ${path}`)).stdout, name)
  }
  untouched()
})

test('names with zeros, line ends, backslashes and nothing: an answer, and the host stays as it is', async () => {
  for (const name of ['/tmp/a\0b', `/tmp/\0${host}/canary`, '/tmp/a\nb', '/tmp/a\r\nX-Header: y', '/tmp/a\\..\\b', '/tmp/\x1b[2J', '/tmp/\u202e', '', '.', '..', '/', `/tmp/${'n'.repeat(300)}`, '/tmp/' + 'a/'.repeat(3000)]) {
    for (const status of [(await read(name)).status, await write(name, 'x')]) assert.ok(status < 500 || status === 507, `${JSON.stringify(name.slice(0, 40))}: ${status}`)
  }
  await write('/tmp/a\nb', 'of two lines')
  assert.equal((await read('/tmp/a\nb')).text, 'of two lines') // a name as good as any other
  untouched()
})

test('space cp of a folder full of hostile names and links writes below its destination only', async () => {
  await root(`mkdir -p /tmp/tree/sub && cd /tmp/tree && ln -s ${host} out && ln -s ${host}/canary file && ln -s .. up && ln -s /proc/1/root proc && touch 'a\\b' "$(printf 'c\\nd')" -- '-rf' '...' && echo inside > sub/plain && mkfifo pipe`)
  const into = fs.mkdtempSync('/tmp/space-copied-')
  try {
    const copied = space(['cp', '-r', `${sandbox.sandboxId}:/tmp/tree`, `${into}/here`])
    console.log(`# ${copied.status} ${copied.stderr.trim().slice(0, 200)}`)
    assert.deepEqual(fs.readdirSync(into), fs.existsSync(`${into}/here`) ? ['here'] : [])
    // What can be copied is: the control that anything was.
    const plain = space(['cp', '-r', `${sandbox.sandboxId}:/tmp/tree/sub`, `${into}/sub`])
    assert.equal(plain.status, 0, plain.stderr)
    assert.equal(fs.readFileSync(`${into}/sub/plain`, 'utf8'), 'inside\n')
    // A link at the destination that the guest's tree names too.
    fs.mkdirSync(`${into}/again`)
    await root('mkdir -p /tmp/evil/out && echo changed > /tmp/evil/out/canary')
    const again = space(['cp', '-r', `${sandbox.sandboxId}:/tmp/tree`, `${into}/again`])
    console.log(`# ${again.status} ${again.stderr.trim().slice(0, 200)}`)
    // First a link to the host's folder, then a folder of that name: the second must not be written through the first.
    const through = space(['cp', '-r', `${sandbox.sandboxId}:/tmp/evil/.`, `${into}/again`])
    console.log(`# ${through.status} ${through.stderr.trim().slice(0, 200)}`)
    untouched()
  } finally {
    fs.rmSync(into, { recursive: true })
  }
})
