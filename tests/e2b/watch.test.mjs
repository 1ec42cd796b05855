// files.watchDir, through the SDK, in a VM.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { failure, newest, Sandbox, sdk, until } from './sdk.mjs'

let sandbox
const run = async (command) => (await sandbox.commands.run(command)).stdout

before(async () => { sandbox = await Sandbox.create({ timeoutMs: 600_000 }) })
after(async () => { await sandbox?.kill() })

// A watch and what it has told; `saw` waits for an event.
async function watch(path, options = {}) {
  const told = []
  const entries = new Map()
  const state = { told, entries, exited: false, error: undefined }
  const handle = await sandbox.files.watchDir(path, (event) => {
    told.push(`${event.type} ${event.name}`)
    if (event.entry) entries.set(`${event.type} ${event.name}`, event.entry)
  }, { timeoutMs: 0, onExit: (error) => { state.exited = true; state.error = error }, ...options })
  state.stop = () => handle.stop()
  state.saw = (event) => until(() => told.includes(event) || state.exited, `${event} in ${JSON.stringify(told.slice(-20))}`)
  state.count = (event) => told.filter((one) => one === event).length
  return state
}

test('what happens to files is told in order', async () => {
  await run('mkdir -p plain/sub')
  const seen = await watch('plain')
  await run('cd plain && echo x > f && chmod 600 f && touch sub/unseen && mv f g && rm g && touch last')
  await seen.saw('create last')
  await seen.stop()
  const order = seen.told.filter((event) => / [fg]$/.test(event))
  assert.deepEqual(order, ['create f', 'write f', 'chmod f', 'rename f', 'create g', 'remove g'])
  assert.ok(!seen.told.some((event) => event.includes('unseen')))
})

test('recursive: nothing is missed in folders just made, nothing is told twice', async () => {
  await run('mkdir -p rec/was/there')
  const seen = await watch('rec', { recursive: true })
  await run('cd rec && for i in 1 2 3 4 5; do mkdir -p $i/a/b/c && echo x > $i/a/b/c/f && touch $i/a/g; done; touch was/there/f; touch last')
  await seen.saw('create last')
  await seen.stop()
  const creates = seen.told.filter((event) => event.startsWith('create '))
  const wanted = [1, 2, 3, 4, 5].flatMap((i) => [`${i}`, `${i}/a`, `${i}/a/b`, `${i}/a/b/c`, `${i}/a/b/c/f`, `${i}/a/g`])
  assert.deepEqual(creates.sort(), [...wanted, 'was/there/f', 'last'].map((name) => `create ${name}`).sort())
  for (const i of [1, 2, 3, 4, 5]) assert.ok(seen.told.includes(`write ${i}/a/b/c/f`))
})

test('recursive: folders moved in, within and out', async () => {
  await run('mkdir -p mov/a/in/deep out/new/deep && echo x > out/new/deep/f')
  const seen = await watch('mov', { recursive: true })
  await run('mv mov/a/in mov/b && touch mov/b/deep/f1')
  await seen.saw('create b/deep/f1')
  await run('mv out/new mov/new && touch mov/new/deep/f2')
  await seen.saw('create new/deep/f2')
  assert.ok(seen.told.includes('create new/deep/f'), 'what a folder brought along')
  await run('mv mov/b out/b && touch out/b/deep/unseen mov/last')
  await seen.saw('create last')
  await seen.stop()
  assert.deepEqual(seen.told.filter((event) => / (a\/in|b)$/.test(event)), ['rename a/in', 'create b', 'rename b'])
  assert.ok(!seen.told.some((event) => event.includes('unseen')))
})

test('a thousand nested folders under watch, and a thousand made while it watches', async () => {
  const deep = Array(1000).fill('d').join('/')
  await sandbox.files.makeDir(`nest/was/${deep}`)
  const seen = await watch('nest', { recursive: true })
  await sandbox.files.makeDir(`nest/new/${deep}`)
  await seen.saw(`create new/${deep}`)
  await sandbox.files.makeDir(`nest/was/${deep}/x`)
  await sandbox.files.makeDir(`nest/new/${deep}/x`)
  await seen.saw(`create was/${deep}/x`)
  await seen.saw(`create new/${deep}/x`)
  await sandbox.files.remove('nest/new')
  await seen.saw('remove new')
  await seen.stop()
  assert.equal(new Set(seen.told.filter((event) => event.startsWith('create new'))).size, 1002)
})

test('thousands of files unpacked into a watched folder are all told', async () => {
  await run('mkdir -p storm')
  const seen = await watch('storm', { recursive: true })
  await run(`python3 - <<'END'
import os
for d in range(100):
    os.makedirs(f'storm/{d}/src')
    for f in range(30):
        with open(f'storm/{d}/src/{f}', 'w') as file: file.write('x')
open('storm/last', 'w').close()
END`)
  await seen.saw('create last')
  await until(() => seen.exited || new Set(seen.told.filter((event) => event.startsWith('create '))).size === 3201, 'every file told')
  await seen.stop()
  assert.equal(new Set(seen.told.filter((event) => event.startsWith('write '))).size, 3000)
})

test('the end of the folder ends the watch with an error that says so', async () => {
  for (const command of ['rm -r ends', 'mv ends ended']) {
    await run('mkdir -p ends/sub')
    const seen = await watch('ends', { recursive: true })
    await run(command)
    await until(() => seen.exited, 'the watch to end')
    assert.match(`${seen.error?.message}`, /watched folder was (removed|moved)/)
  }
})

test('what cannot be watched', async () => {
  await run('touch file')
  assert.match((await failure(watch('none'))).constructor.name, /NotFoundError/)
  assert.ok((await failure(watch('file'))) instanceof sdk.InvalidArgumentError)
})

test('thirty watches of one folder, stopped one by one', async () => {
  await run('mkdir -p many')
  const watches = await Promise.all(Array.from({ length: 30 }, () => watch('many')))
  await run('touch many/f')
  await Promise.all(watches.map((one) => one.saw('create f')))
  await Promise.all(watches.slice(1).map((one) => one.stop()))
  await run('touch many/g')
  await watches[0].saw('create g')
  await watches[0].stop()
})

if (newest) test('events bring the entry of the file', async () => {
  await run('mkdir -p entry')
  const seen = await watch('entry', { recursive: true, includeEntry: true })
  await run('mkdir entry/d && printf 12345 > entry/d/f && chmod 600 entry/d/f')
  await seen.saw('chmod d/f')
  await seen.stop()
  assert.equal(seen.entries.get('create d').type, 'dir')
  const entry = seen.entries.get('chmod d/f')
  assert.deepEqual([entry.path, entry.size, entry.mode, entry.owner], ['/home/user/entry/d/f', 5, 0o600, 'user'])
})

if (newest) test('allowNetworkMounts changes nothing for a local folder', async () => {
  await run('mkdir -p allowed')
  const seen = await watch('allowed', { allowNetworkMounts: true })
  await run('touch allowed/f')
  await seen.saw('create f')
  await seen.stop()
})
