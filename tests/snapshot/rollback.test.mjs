// Back to a snapshot, in place: the same id and token, the state before is kept, and a crash afterwards stays on the branch it is on.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { sleep, until } from '../e2b/sdk.mjs'
import { daemon, qemuOf, quietTable, settled } from '../system/machine.mjs'
import { boot, Branches, Counter, put, word } from './branches.mjs'
import { Instance } from './instance.mjs'
import { inFresh, long, pauseCold, stdout } from './sandboxes.mjs'

const here = new Branches()
let table
before(async () => { table = await quietTable() })
after(async () => { await settled(table) })

test('to a checkpoint the counter goes on from then; the undo from where it was; the undo of that from then again', () => inFresh(async (sandbox) => {
  const pid = await Counter.start(sandbox)
  const booted = await boot(sandbox)
  const target = await here.snapshot(sandbox)
  const then = (await Counter.of(sandbox)).ram
  await until(async () => (await Counter.of(sandbox)).ram > then + 200, 'it counts on')
  const later = (await Counter.of(sandbox)).ram
  const rolled = await here.rollback(sandbox, target.number)
  const back = await Counter.goesOn(sandbox) // with the token it has had all the time
  assert.ok(back.ram < later, `${back.ram} is before ${later}`)
  assert.match(await stdout(sandbox, `cat /proc/${pid}/cmdline | tr "\\0" " "`), /counter run/)
  const kept = (await here.snapshots(sandbox)).find((one) => one.number === rolled.undo)
  assert.deepEqual([kept.cause, kept.kind, kept.onLineage], ['before_rollback', 'full', false])

  const undone = await here.undo(sandbox)
  assert.ok((await Counter.goesOn(sandbox)).ram >= later)
  assert.notEqual(undone.undo, rolled.undo)
  await here.undo(sandbox)
  assert.ok((await Counter.goesOn(sandbox)).ram < later + 200)
  console.log(`# counted ${then} at the snapshot, ${later} at the rollback, ${back.ram} after it`)
  assert.equal(await boot(sandbox), booted, 'none of it was a boot')
}))

test('to a disk snapshot it boots with the files of then; the undo has the memory of before', () => inFresh(async (sandbox) => {
  await put(sandbox, 'first', '/home/user/word')
  const target = await here.snapshot(sandbox, { kind: 'disk' })
  assert.equal(target.quiesced, true)
  await put(sandbox, 'second', '/home/user/word')
  await put(sandbox, 'memory')
  const booted = await boot(sandbox)
  await here.rollback(sandbox, target.number)
  assert.deepEqual([await word(sandbox, '/home/user/word'), await word(sandbox)], ['first', 'none'])
  assert.notEqual(await boot(sandbox), booted)
  await here.undo(sandbox)
  assert.deepEqual([await word(sandbox, '/home/user/word'), await word(sandbox)], ['second', 'memory'])
  assert.equal(await boot(sandbox), booted)
}))

test('of one that rests: paused cold and stopped ones go back and run', () => inFresh(async (sandbox) => {
  await put(sandbox, 'first')
  const target = await here.snapshot(sandbox)
  await put(sandbox, 'second')
  await pauseCold(sandbox)
  await here.rollback(sandbox, target.number)
  assert.equal(await word(sandbox), 'first')
  await put(sandbox, 'third')
  await here.ask('POST', sandbox, '/stop')
  await here.rollback(sandbox, target.number)
  assert.equal(await word(sandbox), 'first')
  await here.undo(sandbox) // of the stopped one: it had no memory
  assert.deepEqual([await word(sandbox), (await sandbox.getInfo()).state], ['none', 'running'])
}))

test('what cannot be: an unknown, a removed and another sandbox\'s snapshot, an undo of nothing; nothing has changed', () => inFresh((sandbox) => inFresh(async (other) => {
  await put(sandbox, 'kept')
  const removed = await here.snapshot(sandbox, { kind: 'disk' })
  await here.ask('DELETE', sandbox, `/snapshots/${removed.number}`)
  for (let i = 0; i < 3; ++i) await here.snapshot(other)
  const foreign = (await here.snapshots(other)).at(-1)
  const before = await here.snapshots(sandbox)
  for (const [wish, status] of [[{ snapshot: 999 }, 404], [{ snapshot: removed.number }, 404], [{ snapshot: foreign.number }, 404], [{ undo: true }, 409], [{}, 400], [{ snapshot: 1, undo: true }, 400]]) {
    const answer = await here.call('POST', sandbox, '/rollback', wish)
    const { message } = await answer.json()
    console.log(`# ${JSON.stringify(wish)}: ${answer.status} ${message}`)
    assert.ok(answer.status === status || (status === 409 && answer.status === 404), `${answer.status} ${message}`)
  }
  assert.deepEqual(await here.snapshots(sandbox), before)
  assert.equal(await word(sandbox), 'kept')
})))

test('after a rollback a crash recovers on the new branch; one that chose by time would not', () => inFresh(async (sandbox) => {
  await here.recovery(sandbox, 'checkpoint')
  await put(sandbox, 'target')
  const target = await here.snapshot(sandbox)
  await put(sandbox, 'abandoned')
  await here.snapshot(sandbox)
  await here.rollback(sandbox, target.number)
  await here.crash(sandbox)
  const told = await here.recovered(sandbox)
  assert.deepEqual([told.from.kind, told.from.number], ['full', target.number])
  assert.equal(await word(sandbox), 'target')
  // The control: the newest checkpoint is another, and of the other branch.
  const newest = (await here.snapshots(sandbox)).filter((one) => one.kind === 'full').at(-1)
  assert.ok(newest.number > target.number && !newest.onLineage)
  await here.withChildren(sandbox, { snapshot: newest.number }, async ([child]) => assert.equal(await word(child), 'abandoned'))
}))

// One instance for the crashes: its sandboxd dies at a point of its work, again and again, until it is started without that.
let instance
let there
before(async () => { instance = await Instance.start(); there = new Branches(instance) })
after(() => instance.stop())

const points = [['rollback-kept', 'before'], ['rollback-written', 'target'], ['rollback-restored', 'target']]
for (const [point, expected] of points) {
  for (const kind of ['full', 'disk']) {
    test(`space-sandboxd dies at ${point} of a rollback to a ${kind} snapshot: it is the state ${expected === 'before' ? 'before' : 'of the snapshot'}`, async () => {
      instance.restart('')
      await instance.use(async (sandbox) => {
        await put(sandbox, 'target', '/home/user/word')
        const target = await there.snapshot(sandbox, { kind })
        await put(sandbox, 'before', '/home/user/word')
        instance.restart(`--fault crash-at=${point}`)
        await until(() => sandbox.isRunning().catch(() => false), 'it runs')
        const { pid } = daemon('space-sandboxd', instance.run)
        const answer = there.call('POST', sandbox, '/rollback', { snapshot: target.number }).catch(() => {})
        await until(() => (daemon('space-sandboxd', instance.run)?.pid ?? pid) !== pid, 'it died')
        await answer
        instance.restart('')
        await until(() => sandbox.isRunning().catch(() => false), 'it runs again')
        assert.equal(await word(sandbox, '/home/user/word'), expected)
        await onlyListedIsLeft(sandbox)
        await there.rollback(sandbox, target.number) // and it can still be done
        assert.equal(await word(sandbox, '/home/user/word'), 'target')
      })
    })
  }
}

// On the pool there is nothing that the sandbox does not know of.
async function onlyListedIsLeft(sandbox) {
  let state
  await until(async () => {
    const listed = (await there.snapshots(sandbox)).map((one) => String(one.number))
    const folder = `${instance.state}/pool/snapshots/${sandbox.sandboxId}`
    const kept = fs.existsSync(folder) ? fs.readdirSync(folder) : []
    state = { listed: listed.sort(), kept: kept.sort() }
    return JSON.stringify(state.listed) === JSON.stringify(state.kept)
  }, 'what is kept is what is listed').catch((error) => { throw new Error(`${error.message}: ${JSON.stringify(state)}`) })
}

const kills = long ? 60 : 9
test(`kill -9 of each process at ${kills} moments of a rollback: it is one of the two states, and works`, async () => {
  instance.restart('')
  await instance.use(async (sandbox) => {
    await put(sandbox, 'target')
    const target = await there.snapshot(sandbox)
    for (let i = 0; i < kills; ++i) {
      await put(sandbox, `step-${i}`)
      const victim = ['space-sandboxd', 'space-noded', 'space-control'][i % 3]
      const { pid } = daemon(victim, instance.run)
      const going = there.call('POST', sandbox, '/rollback', { snapshot: target.number }).then((answer) => answer.status, () => 'broken')
      await sleep((i * 37) % 250)
      process.kill(pid, 'SIGKILL')
      await until(() => (daemon(victim, instance.run)?.pid ?? pid) !== pid, `${victim} is started again`)
      const went = await going
      await until(() => sandbox.isRunning().catch(() => false), 'it runs', 90_000)
      const now = await word(sandbox)
      console.log(`# ${victim} ${(i * 37) % 250} ms into it: ${went}, then it is '${now}'`)
      assert.ok(['target', `step-${i}`].includes(now), now)
      if (went === 200) assert.equal(now, 'target')
    }
    await onlyListedIsLeft(sandbox)
  })
})

test('kill -9 of the virtual machine in the middle of a rollback: it comes back, as told', async () => {
  instance.restart('')
  await instance.use(async (sandbox) => {
    await there.recovery(sandbox, 'checkpoint')
    await put(sandbox, 'target')
    const target = await there.snapshot(sandbox)
    for (const delay of [5, 40, 120]) {
      await put(sandbox, 'before')
      const { pid } = qemuOf(sandbox.sandboxId, instance.run)
      const going = there.call('POST', sandbox, '/rollback', { snapshot: target.number }).then((answer) => answer.status, () => 'broken')
      await sleep(delay)
      try { process.kill(pid, 'SIGKILL') } catch { /* it had gone for the one of the rollback */ }
      const went = await going
      await until(() => sandbox.isRunning().catch(() => false), 'it runs', 90_000)
      const now = await word(sandbox)
      console.log(`# after ${delay} ms: ${went}, then it is '${now}'`)
      assert.equal(now, 'target') // rolled back, or recovered from its newest checkpoint
    }
  })
})
