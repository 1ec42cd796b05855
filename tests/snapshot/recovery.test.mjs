// A virtual machine that ends unasked: its sandbox goes on from where its policy says, and says so.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { api, apiUrl, dataPlaneHeaders, Sandbox, until } from '../e2b/sdk.mjs'
import { processes, quietTable, settled } from '../system/machine.mjs'
import { boot, Branches, Counter, put, word } from './branches.mjs'
import { Instance } from './instance.mjs'
import { fileOf, hasMemory, inFresh, life, resume as resumeOnce, stdout } from './sandboxes.mjs'

const here = new Branches()
let table
before(async () => { table = await quietTable() })
after(async () => { await settled(table) })

// A boot may take longer than a request waits.
const resume = (sandbox) => until(() => resumeOnce(sandbox).then(() => true, (error) => { assert.match(error.message, /transition/); return false }), 'it runs', 120_000)
const generation = async (sandbox) => Number(await stdout(sandbox, 'cat /run/space/generation'))
const recoveries = async (sandbox) => (await here.history(sandbox)).events.filter((event) => event.kind === 'recovery')
const event = async (sandbox, pattern) => {
  const { logs } = await (await api('GET', `/v2/sandboxes/${sandbox.sandboxId}/logs?limit=1000`)).json()
  return logs.some((line) => pattern.test(`${line.message} ${JSON.stringify(line.fields ?? {})}`))
}

test('policy disk: the files are there, the memory is not, and state, generation, history and log say what happened', () => inFresh(async (sandbox) => {
  await put(sandbox, 'kept', '/home/user/word')
  await put(sandbox, 'lost')
  await here.snapshot(sandbox) // there is a checkpoint, and it is not what is wanted
  assert.equal((await here.detail(sandbox)).recovered, null)
  assert.deepEqual(await recoveries(sandbox), [])
  const [booted, was] = [await boot(sandbox), await generation(sandbox)]
  await here.crash(sandbox)
  const headers = await dataPlaneHeaders(sandbox)
  // Waits for it, and says so when that takes long.
  await until(async () => {
    const { status } = await fetch(`${apiUrl}/files?path=/home/user/word&username=user`, { headers })
    assert.ok([200, 409].includes(status), `${status}`)
    return status === 200
  }, 'a request is served', 120_000)
  const told = await here.recovered(sandbox)
  console.log(`# ${JSON.stringify(told)}`)
  assert.deepEqual([told.from.kind, told.from.number, told.count], ['live_disk', null, 1])
  assert.ok(told.cause.length > 3)
  assert.deepEqual([await word(sandbox, '/home/user/word'), await word(sandbox)], ['kept', 'none'])
  assert.notEqual(await boot(sandbox), booted)
  assert.equal(await generation(sandbox), was + 1)
  assert.equal((await recoveries(sandbox)).length, 1)
  assert.ok(await event(sandbox, /recover/i))
}))

test('policy checkpoint: the counter goes on from the newest one, and the disk of the crash is kept', () => inFresh(async (sandbox) => {
  await here.recovery(sandbox, 'checkpoint')
  await Counter.start(sandbox)
  await here.snapshot(sandbox)
  const newest = await here.snapshot(sandbox)
  await put(sandbox, 'later', '/home/user/word')
  const [booted, was] = [await boot(sandbox), await generation(sandbox)]
  await here.crash(sandbox)
  const told = await here.recovered(sandbox)
  assert.deepEqual([told.from.kind, told.from.number, told.from.createdAt], ['full', newest.number, newest.createdAt])
  await Counter.goesOn(sandbox)
  assert.equal(await word(sandbox, '/home/user/word'), 'none')
  assert.equal(await boot(sandbox), booted)
  assert.equal(await generation(sandbox), was + 1)
  const kept = (await here.snapshots(sandbox)).find((one) => one.cause === 'before_recovery')
  assert.deepEqual([kept.kind, kept.quiesced], ['disk', false])
  await here.withChildren(sandbox, { snapshot: newest.number }, async ([child]) => assert.equal(await word(child, '/home/user/word'), 'none'))
  await here.rollback(sandbox, kept.number) // nothing of the crash is lost
  assert.equal(await word(sandbox, '/home/user/word'), 'later')
}))

test('policy none: it is over, as told', () => inFresh(async (other) => {
  const sandbox = await Sandbox.create(life)
  await here.recovery(sandbox, 'none')
  await here.crash(sandbox)
  await until(async () => (await api('GET', `/sandboxes/${sandbox.sandboxId}`)).status === 404, 'it is gone')
  assert.equal((await api('GET', `/sandboxes/${other.sandboxId}`)).status, 200)
}))

test('a damaged newest checkpoint: the next older one goes on, and that is said', () => inFresh(async (sandbox) => {
  await here.recovery(sandbox, 'checkpoint')
  await put(sandbox, 'older')
  const older = await here.snapshot(sandbox)
  await put(sandbox, 'newest')
  const newest = await here.snapshot(sandbox)
  damage(sandbox, newest.number)
  await here.crash(sandbox)
  const told = await here.recovered(sandbox)
  assert.deepEqual([told.from.kind, told.from.number], ['full', older.number])
  assert.equal(await word(sandbox), 'older')
  const events = (await here.history(sandbox)).events.map((one) => one.text).join('\n')
  console.log(`# ${events.replaceAll('\n', '\n# ')}`)
  assert.match(events, new RegExp(`\\b${newest.number}\\b`))
}))

test('all checkpoints damaged: its live disk, at last', () => inFresh(async (sandbox) => {
  await here.recovery(sandbox, 'checkpoint')
  await put(sandbox, 'on disk', '/home/user/word')
  damage(sandbox, (await here.snapshot(sandbox)).number)
  await here.crash(sandbox)
  assert.equal((await here.recovered(sandbox)).from.kind, 'live_disk')
  assert.equal(await word(sandbox, '/home/user/word'), 'on disk')
}))

// Its devices' state is no such thing any more.
function damage(sandbox, number) {
  const path = fileOf(sandbox, number, 'vmstate')
  const lock = (on) => execFileSync('btrfs', ['property', 'set', path.replace(/\/vmstate$/, ''), 'ro', String(on)])
  lock(false)
  fs.writeFileSync(path, Buffer.alloc(100_000, 0x5a))
  lock(true)
}

test('a guest that powers off by itself is recovered too', () => inFresh(async (sandbox) => {
  await put(sandbox, 'kept', '/home/user/word')
  await sandbox.commands.run('echo o > /proc/sysrq-trigger', { user: 'root', timeoutMs: 5_000 }).catch(() => {})
  const told = await here.recovered(sandbox)
  assert.equal(told.from.kind, 'live_disk')
  assert.equal(await word(sandbox, '/home/user/word'), 'kept')
}))

test('one that rests hot and loses its machine rests on, where it can be brought back from', () => inFresh(async (sandbox) => {
  await put(sandbox, 'kept', '/home/user/word')
  await sandbox.pause()
  assert.ok(hasMemory(sandbox))
  await here.crash(sandbox)
  await until(async () => (await here.detail(sandbox)).memory === 'none', 'its memory is gone')
  assert.equal((await sandbox.getInfo()).state, 'paused')
  await resume(sandbox)
  assert.equal(await word(sandbox, '/home/user/word'), 'kept')
}))

test('one that keeps dying fails with its reason and keeps its disk, until somebody asks', () => inFresh(async (sandbox) => {
  await put(sandbox, 'kept', '/home/user/word')
  for (let count = 1; count <= 3; ++count) {
    await here.crash(sandbox)
    await here.recovered(sandbox, count)
  }
  await here.crash(sandbox)
  let told
  await until(async () => (told = await here.recovery(sandbox)).state === 'failed', 'it fails')
  console.log(`# ${told.reason}`)
  assert.ok(told.reason.length > 10)
  const asked = await here.call('POST', sandbox, '/recovery') // may take longer than it waits
  assert.ok(asked.ok || asked.status === 409, `${asked.status} ${await asked.text()}`)
  await until(async () => (await here.recovery(sandbox)).state === 'running', 'it runs again', 120_000)
  await resume(sandbox)
  assert.equal(await word(sandbox, '/home/user/word'), 'kept')
}))

test('the host restarts: every process ends, the pool is unmounted and its device goes; all come back as their policies say', async () => {
  const instance = await Instance.start()
  const there = new Branches(instance)
  try {
    const [disk, checkpoint, none, paused, stopped] = await Promise.all(Array.from({ length: 5 }, () => Sandbox.create({ ...instance.options(), ...life })))
    await there.recovery(checkpoint, 'checkpoint')
    await there.recovery(none, 'none')
    for (const sandbox of [disk, checkpoint, none, paused, stopped]) {
      await put(sandbox, sandbox.sandboxId, '/home/user/word')
      await put(sandbox, sandbox.sandboxId)
    }
    await Counter.start(checkpoint)
    const point = await there.snapshot(checkpoint)
    await there.ask('PUT', paused, '/pause-policy', { hotKeepSeconds: 0 })
    await paused.pause()
    await until(async () => (await there.detail(paused)).memory === 'cold', 'it rests in a checkpoint')
    await there.ask('POST', stopped, '/stop')
    restartHost(instance)
    await new Promise((resolve) => setTimeout(resolve, 250)) // this process hears that its connections are gone
    assert.equal((await there.recovered(disk)).from.kind, 'live_disk')
    assert.deepEqual([await word(disk, '/home/user/word'), await word(disk)], [disk.sandboxId, 'none'])
    const told = await there.recovered(checkpoint)
    assert.deepEqual([told.from.kind, told.from.number], ['full', point.number])
    assert.equal(await word(checkpoint), checkpoint.sandboxId)
    await Counter.goesOn(checkpoint)
    await until(async () => (await instance.call('GET', `/sandboxes/${none.sandboxId}`)).status === 404, 'the one that wants none is gone')
    for (const [sandbox, memory] of [[paused, paused.sandboxId], [stopped, 'none']]) {
      assert.equal((await there.detail(sandbox)).recovered, null, 'nothing happened to one that rested')
      const again = await there.connect(sandbox.sandboxId)
      assert.deepEqual([await word(again, '/home/user/word'), await word(again)], [sandbox.sandboxId, memory])
    }
    for (const sandbox of [disk, checkpoint, paused, stopped]) await there.kill(sandbox)
    await until(async () => (await quietTable(instance)).subvolumes === 0, 'nothing is left')
  } finally {
    instance.stop()
  }
})

// As a reset does it: nobody is asked, nobody says goodbye.
function restartHost(instance) {
  const pool = `${instance.state}/pool`
  const device = instance.execute(['findmnt', '-n', '-o', 'SOURCE', pool]).trim().split('\n')[0]
  const ours = () => processes().filter((p) => p.state !== 'Z' && (p.cmdline.includes(instance.run) ||
    (() => { try { return fs.readFileSync(`/proc/${p.pid}/cgroup`, 'utf8').includes(`/space/${instance.run.slice(1).replaceAll('/', '+')}/`) } catch { return false } })()))
  const supervisor = Number(fs.readFileSync(`${instance.run}/up.lock`, 'utf8').split('\n')[0])
  process.kill(supervisor, 'SIGKILL')
  for (const end = Date.now() + 30_000; ours().length > 0 && Date.now() < end;) {
    for (const { pid } of ours()) try { process.kill(pid, 'SIGKILL') } catch { /* gone */ }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50)
  }
  assert.deepEqual(ours().map((p) => p.cmdline.join(' ')), [])
  instance.execute(['umount', pool])
  instance.execute(['sh', '-c', `losetup -d ${device} 2>/dev/null || true`])
  for (const mounted of fs.readFileSync('/proc/self/mounts', 'utf8').split('\n').map((line) => line.split(' ')[1]).filter((path) => path?.startsWith(instance.run)).reverse()) instance.execute(['umount', mounted])
  fs.rmSync(instance.run, { recursive: true, force: true }) // a tmpfs on a real machine
  instance.up()
}
