// Snapshots that sandboxes are created from, as the SDKs use them.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { api, failure, newest, sdk, Sandbox, sdkName, until } from './sdk.mjs'

const made = [], published = []
const keep = (sandbox) => { made.push(sandbox); return sandbox }
const create = async (template, options = {}) => keep(template ? await Sandbox.create(template, { timeoutMs: 600_000, ...options }) : await Sandbox.create({ timeoutMs: 600_000, ...options }))
const publish = async (sandbox, options) => { const one = await sandbox.createSnapshot(options); published.push(one.snapshotId); return one }
after(async () => {
  await Promise.all(made.map((sandbox) => sandbox.kill().catch(() => {})))
  await Promise.all(published.map((id) => Sandbox.deleteSnapshot(id).catch(() => {})))
})
const all = async (paginator) => {
  const found = []
  while (paginator.hasNext) found.push(...await paginator.nextItems())
  return found.map((one) => one.snapshotId)
}
const word = `t${sdkName.replace(/\D/g, '')}`   // names of the other SDK's run are not ours
const output = async (sandbox, command) => (await sandbox.commands.run(command)).stdout.trim()

let source, program
before(async () => {
  source = await create()
  await source.files.write('/home/user/kept', 'one')
  program = await source.commands.run('sleep 10000', { background: true, timeoutMs: 0 })
  program.wait().catch(() => {})
})

test('a snapshot is listed, its sandbox goes on, and what is created from it has files and programs', async () => {
  const boot = await output(source, 'cat /proc/sys/kernel/random/boot_id')
  const snapshot = await publish(source)
  assert.match(snapshot.snapshotId, /^[0-9a-f]{20}:default$/)
  assert.deepEqual(snapshot.names, [])
  assert.equal(await output(source, 'cat /proc/sys/kernel/random/boot_id'), boot)
  assert.ok((await source.commands.list()).some((one) => one.pid === program.pid))
  assert.deepEqual(await all(source.listSnapshots()), [snapshot.snapshotId])
  assert.ok((await all(Sandbox.listSnapshots())).includes(snapshot.snapshotId))
  assert.deepEqual(await all(Sandbox.listSnapshots({ sandboxId: 'i' + 'x'.repeat(19) })), [])

  const two = await Promise.all([create(snapshot.snapshotId, { metadata: { who: 'first' }, envs: { ADDED: 'yes' } }), create(snapshot.snapshotId)])
  for (const sandbox of two) {
    assert.equal(await sandbox.files.read('/home/user/kept'), 'one')
    assert.ok((await sandbox.commands.list()).some((one) => one.pid === program.pid))
  }
  assert.deepEqual((await two[0].getInfo()).metadata, { who: 'first' })
  assert.equal(await output(two[0], 'echo $ADDED'), 'yes')
  assert.equal(await output(two[1], 'echo $ADDED'), '')
  const lines = await Promise.all([source, ...two].map((one) => output(one, 'hostname; cat /etc/machine-id; head -c 16 /dev/urandom | base64')))
  const values = lines.join('\n').split('\n')
  assert.equal(new Set(values).size, values.length, lines.join(' | '))
})

test('it outlives its sandbox', async () => {
  const sandbox = await create()
  await sandbox.files.write('/home/user/last', 'words')
  const snapshot = await publish(sandbox, { name: `${word}-outlives` })
  assert.equal(await Sandbox.kill(sandbox.sandboxId), true)
  const next = await create(snapshot.snapshotId)
  assert.equal(await next.files.read('/home/user/last'), 'words')
  const again = await create(`${word}-outlives`)
  assert.equal(await again.files.read('/home/user/last'), 'words')
})

test('a name used again means the newest; who began as the older one goes on', async () => {
  const name = `${word}-name`
  await source.files.write('/home/user/kept', 'old')
  const first = await publish(source, { name })
  assert.equal(first.snapshotId, `default/${name}:default`)
  assert.deepEqual(first.names, [`default/${name}`])
  const old = await create(name)
  await source.files.write('/home/user/kept', 'new')
  const second = await publish(source, { name })
  assert.equal(second.snapshotId, first.snapshotId)
  const fresh = await create(first.snapshotId)
  assert.equal(await fresh.files.read('/home/user/kept'), 'new')
  assert.equal(await old.files.read('/home/user/kept'), 'old')
  assert.equal((await all(Sandbox.listSnapshots())).filter((id) => id === first.snapshotId).length, 1)
  assert.equal((await old.getInfo()).templateId, (await fresh.getInfo()).templateId)
  await old.pause()
  const back = await Sandbox.connect(old.sandboxId, { timeoutMs: 600_000 })
  assert.equal(await back.files.read('/home/user/kept'), 'old')
})

test('tags are snapshots of their own', async () => {
  const name = `${word}-tags`
  await source.files.write('/home/user/kept', 'v1')
  const one = await publish(source, { name: `${name}:v1` })
  await source.files.write('/home/user/kept', 'v2')
  await publish(source, { name: `${name}:v2` })
  assert.equal(one.snapshotId, `default/${name}:v1`)
  assert.equal(await (await create(`${name}:v1`)).files.read('/home/user/kept'), 'v1')
  assert.equal(await (await create(`default/${name}:v2`)).files.read('/home/user/kept'), 'v2')
  assert.match((await failure(create(`${name}:v3`))).message, /404.*was not found/)
  if (newest) assert.deepEqual(await all(Sandbox.listSnapshots({ name: `${name}:v1` })), [one.snapshotId])
})

test('pages', async () => {
  const everything = await all(Sandbox.listSnapshots())
  assert.ok(everything.length >= 2)
  assert.deepEqual(await all(Sandbox.listSnapshots({ limit: 1 })), everything)
})

test('deleted once nobody uses it', async () => {
  const snapshot = await publish(source, { name: `${word}-delete` })
  const user = await create(snapshot.snapshotId)
  const refused = await failure(Sandbox.deleteSnapshot(snapshot.snapshotId))
  assert.match(refused.message, /^400: .*in use/)
  assert.ok(refused.message.includes(user.sandboxId))
  await user.pause()
  assert.match((await failure(Sandbox.deleteSnapshot(snapshot.snapshotId))).message, /^400/)
  await user.kill()
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false)
  assert.ok(!(await all(Sandbox.listSnapshots())).includes(snapshot.snapshotId))
  assert.match((await failure(create(snapshot.snapshotId))).message, /404.*was not found/)
  // The sandbox it was taken of is told as well.
  const { snapshotID, number } = await (await api('POST', `/sandboxes/${source.sandboxId}/snapshots`)).json()
  published.push(snapshotID)
  const snapshots = async () => (await (await api('GET', `/v1/sandboxes/${source.sandboxId}/snapshots`)).json()).snapshots
  assert.equal((await snapshots()).find((one) => one.number === number).published, true)
  assert.equal(await Sandbox.deleteSnapshot(snapshotID), true)
  await until(async () => !(await snapshots()).some((one) => one.number === number && one.published), 'it is withdrawn')
})

test('bad names and unknown sandboxes', async () => {
  for (const name of ['a b', '-x', 'other/name', 'a:b:c', 'base', 'x'.repeat(200)])
    assert.match((await failure(source.createSnapshot({ name }))).message, /^400/, name)
  assert.ok(await failure(Sandbox.createSnapshot('i' + 'x'.repeat(19))) instanceof sdk.SandboxNotFoundError)
  assert.equal(await Sandbox.deleteSnapshot('never/there:default'), false)
  assert.equal(await Sandbox.deleteSnapshot('base'), false)
})
