// Forks: copies that go on where their parent is, and are nobody's twins.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { api, apiUrl, dataPlaneHeaders, failure, Sandbox, until } from '../e2b/sdk.mjs'
import { qemuOf, quietTable, settled } from '../system/machine.mjs'
import { boot, Branches, Counter, put, word } from './branches.mjs'
import { Instance } from './instance.mjs'
import { hasMemory, inFresh, life, long, ok, pauseCold, policy, resume, stdout } from './sandboxes.mjs'

const here = new Branches()
let table
before(async () => { table = await quietTable() })
after(async () => { await settled(table) })

test('a counter goes on in the parent and in four children, each with its own memory and disk', () => inFresh(async (parent) => {
  const pid = await Counter.start(parent)
  const begun = (await Counter.of(parent)).ram
  const machine = qemuOf(parent.sandboxId).pid
  await here.withChildren(parent, { count: 4 }, async (children) => {
    for (const child of children) {
      assert.ok((await Counter.goesOn(child)).ram >= begun)
      assert.match(await stdout(child, `cat /proc/${pid}/cmdline | tr "\\0" " "`), /counter run/)
      await put(child, child.sandboxId)
      await put(child, child.sandboxId, '/home/user/word')
    }
    for (const one of children) assert.deepEqual([await word(one), await word(one, '/home/user/word')], [one.sandboxId, one.sandboxId])
    assert.deepEqual([await word(parent), await word(parent, '/home/user/word')], ['none', 'none'])
    await Counter.goesOn(parent)
    assert.equal(qemuOf(parent.sandboxId).pid, machine, 'the parent runs in the machine it had')
    const { forks } = await here.history(parent)
    assert.deepEqual(new Set(forks.map((fork) => fork.sandboxID)), new Set(children.map((child) => child.sandboxId)))
  })
}))

test('metadata, environment and schedule are inherited; the end is its own', async () => {
  const parent = await Sandbox.create({ ...life, metadata: { owner: 'ana' }, envs: { GIVEN: 'yes' } })
  try {
    const schedule = { disk: { everySeconds: 3600, keep: [{ everySeconds: 3600, count: 2 }] } }
    await here.ask('PUT', parent, '/schedule', { schedule })
    await here.recovery(parent, 'checkpoint')
    const { endAt } = await parent.getInfo()
    await here.withChildren(parent, { timeout: 300 }, async ([child]) => {
      assert.deepEqual((await child.getInfo()).metadata, { owner: 'ana' })
      assert.equal(await stdout(child, 'echo $GIVEN'), 'yes\n')
      assert.deepEqual((await here.ask('GET', child, '/schedule')).schedule, schedule)
      assert.equal((await here.recovery(child)).policy, 'checkpoint')
      assert.equal((await parent.getInfo()).endAt.getTime(), endAt.getTime())
    })
  } finally {
    await parent.kill()
  }
})

test('ten generations of fork of fork: each has what all before it had, and the counter never stumbles', async () => {
  let current = await Sandbox.create(life)
  await Counter.start(current)
  let ram = 0
  try {
    for (let generation = 1; generation <= 10; ++generation) {
      await stdout(current, `echo ${generation} >> /dev/shm/marks; echo ${generation} >> /home/user/marks`)
      const [child] = await here.children(current)
      const marks = Array.from({ length: generation }, (_, i) => `${i + 1}\n`).join('')
      assert.equal(await stdout(child, 'cat /dev/shm/marks /home/user/marks'), marks + marks)
      const now = (await Counter.goesOn(child)).ram
      assert.ok(now >= ram, `${now} after ${ram}`)
      ram = now
      const { origin } = await here.history(child)
      assert.equal(origin.sandboxID, current.sandboxId)
      await current.kill() // what the child's memory is of stays as long as the child needs it
      current = child
    }
    await pauseCold(current)
    await resume(current)
    await Counter.goesOn(current)
  } finally {
    await here.kill(current)
  }
})

const draws = `cat /proc/sys/kernel/random/boot_id /etc/machine-id; hostname; cat /etc/ssh/ssh_host_*_key.pub 2>/dev/null | cut -d" " -f2
dd if=/dev/urandom bs=16 count=50 status=none | od -An -v -tx1 -w16 | tr -d " "
cat /proc/sys/kernel/random/uuid; openssl rand -hex 16; if command -v uuidgen >/dev/null; then uuidgen; fi`
const drawnBy = async (sandbox) => (await stdout(sandbox, draws)).trim().split('\n')
const statusOf = async (headers) => (await fetch(`${apiUrl}/files?path=/dev/shm/word&username=user`, { headers })).status

const children = long ? 100 : 50
test(`${children} children: all distinct in identity and randomness, and the parent's token opens none`, () => inFresh(async (parent) => {
  await put(parent, 'same')
  const seen = [await drawnBy(parent)]
  const { 'X-Access-Token': token } = await dataPlaneHeaders(parent)
  const ids = new Set([parent.sandboxId])
  for (let made = 0; made < children; made += 10) {
    await here.withChildren(parent, { count: 10 }, async (batch) => {
      for (const child of batch) {
        assert.equal(await word(child), 'same') // the test can see what is not distinct
        ids.add(child.sandboxId)
        seen.push(await drawnBy(child))
        const headers = await dataPlaneHeaders(child)
        assert.equal(await statusOf(headers), 200)
        assert.equal(await statusOf({ ...headers, 'X-Access-Token': token }), 401)
      }
    })
  }
  assert.equal(ids.size, children + 1)
  assert.ok(seen.every((lines) => lines.length === seen[0].length && lines.length >= 55), JSON.stringify(seen[0]))
  const all = seen.flat()
  assert.deepEqual(all.filter((value, i) => all.indexOf(value) !== i), [])
}))

test('of one paused hot, paused cold, stopped, and of its snapshots of both kinds; E2B refuses what is paused', () => inFresh(async (parent) => {
  await put(parent, 'first')
  await put(parent, 'first', '/home/user/word')
  const full = await here.snapshot(parent)
  const disk = await here.snapshot(parent, { kind: 'disk' })
  assert.deepEqual([full.kind, disk.kind, disk.parent], ['full', 'disk', full.number])
  await put(parent, 'second')
  await put(parent, 'second', '/home/user/word')
  const expect = async (wish, memory, file) => here.withChildren(parent, wish, async ([child]) => {
    assert.deepEqual([await word(child), await word(child, '/home/user/word')], [memory, file])
    assert.notEqual(await stdout(child, 'hostname'), parentName)
  })
  const parentName = await stdout(parent, 'hostname')
  await expect({ snapshot: full.number }, 'first', 'first')
  await expect({ snapshot: disk.number }, 'none', 'first')
  await policy(parent, { hotKeepSeconds: 300 })
  await parent.pause()
  assert.ok(hasMemory(parent))
  const refused = await api('POST', `/sandboxes/${parent.sandboxId}/fork`, { count: 1 })
  assert.equal(refused.status, 409)
  await expect({}, 'second', 'second')
  assert.equal((await parent.getInfo()).state, 'paused', 'it rests on')
  await resume(parent)
  await pauseCold(parent)
  await expect({}, 'second', 'second')
  assert.ok(!hasMemory(parent))
  await ok(await api('POST', `/v1/sandboxes/${parent.sandboxId}/stop`))
  await expect({}, 'none', 'second')
  await resume(parent)
  assert.equal(await word(parent, '/home/user/word'), 'second')
}))

test('what cannot be: refused with a reason, and nothing has changed', () => inFresh((parent) => inFresh(async (other) => {
  const foreign = await here.snapshot(other)
  await here.snapshot(other)
  const mine = await here.snapshot(parent)
  const gone = await here.snapshot(parent, { kind: 'disk' })
  assert.equal((await here.call('DELETE', parent, `/snapshots/${gone.number}`)).status, 204)
  const before = await here.snapshots(parent)
  const cases = [[{ count: 0 }, 400], [{ count: 101 }, 400], [{ count: 'x' }, 400], [{ snapshot: 999 }, 404], [{ snapshot: gone.number }, 404], [{ snapshot: -1 }, 400]]
  for (const [wish, status] of cases) {
    const answer = await here.call('POST', parent, '/fork', wish)
    const { message } = await answer.json()
    console.log(`# ${JSON.stringify(wish)}: ${answer.status} ${message}`)
    assert.equal(answer.status, status, message)
    assert.ok(message.length > 10)
  }
  assert.equal((await here.call('POST', { sandboxId: `i${'x'.repeat(19)}` }, '/fork', {})).status, 404)
  assert.ok(foreign.number >= 1)
  assert.deepEqual(await here.snapshots(parent), before)
  await here.withChildren(parent, { snapshot: mine.number }, async (made) => assert.equal(made.length, 1)) // the same call, with what there is
})))

test('no memory for all: those that fit are made, the others say why, the parent runs on', async () => {
  const instance = await Instance.start({ flags: ['--memory-limit-mib', '2200'] })
  const there = new Branches(instance)
  try {
    await instance.use(async (parent) => {
      await put(parent, 'kept')
      const before = await quietTable(instance)
      const entries = await there.fork(parent, { count: 5 })
      assert.equal(entries.length, 5)
      const [made, failed] = [entries.filter((entry) => entry.sandbox), entries.filter((entry) => entry.error)]
      console.log(`# ${made.length} made; ${failed[0]?.error.code} ${failed[0]?.error.message}`)
      assert.ok(made.length > 0 && failed.length > 0)
      for (const { error } of failed) assert.match(error.message, /memory/i)
      for (const { sandbox } of made) assert.equal(await word(await there.connect(sandbox.sandboxID)), 'kept')
      assert.equal(await word(parent), 'kept')
      for (const { sandbox } of made) await Sandbox.kill(sandbox.sandboxID, instance.options())
      const { snapshots: kept, ...own } = before // the snapshot of the fork stays for a while
      await until(async () => { const { snapshots: now, ...rest } = await quietTable(instance); return JSON.stringify(rest) === JSON.stringify(own) && now <= kept + 1 }, 'nothing of the others is left')
    })
  } finally {
    instance.stop()
  }
})

test('the unmodified SDK: fork, snapshot, create from it, list, delete', () => inFresh(async (sandbox) => {
  await put(sandbox, 'here')
  const [one, two] = await sandbox.fork({ count: 2 })
  assert.deepEqual([await word(one), await word(two)], ['here', 'here'])
  await Promise.all([one.kill(), two.kill()])
  const snapshot = await sandbox.createSnapshot()
  const found = async () => (await Sandbox.listSnapshots({ sandboxId: sandbox.sandboxId }).nextItems()).some((item) => item.snapshotId === snapshot.snapshotId)
  assert.equal(await found(), true)
  const copy = await Sandbox.create(snapshot.snapshotId, life)
  assert.equal(await word(copy), 'here')
  assert.notEqual(await boot(copy), await boot(sandbox))
  await copy.kill()
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
  assert.equal(await found(), false)
  assert.ok(await failure(Sandbox.create(snapshot.snapshotId, life)))
}))
