// Snapshots that a node takes by itself. A minute is the shortest distance; here a second of a schedule lasts 10 ms.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sleep, until } from '../e2b/sdk.mjs'
import { leakTable } from '../system/machine.mjs'
import { Branches, word } from './branches.mjs'
import { Instance } from './instance.mjs'
import { stdout } from './sandboxes.mjs'

const fast = '--fault fast-schedule'
let instance
let there
before(async () => { instance = await Instance.start({ options: fast }); there = new Branches(instance) })
after(() => instance.stop())

const set = (sandbox, schedule) => there.ask('PUT', sandbox, '/schedule', { schedule })
const scheduled = async (sandbox) => (await there.snapshots(sandbox)).filter((one) => one.cause === 'schedule')
const newest = async (sandbox) => (await scheduled(sandbox)).at(-1)?.number ?? 0
// Works until it is told not to.
async function busy(sandbox) {
  const handle = await sandbox.commands.run('while :; do echo x >> /home/user/log; sync /home/user/log; sleep 0.05; done', { background: true, timeoutMs: 0 })
  handle.wait().catch(() => {})
  return handle
}

test('both kinds are taken and go again, as the tiers say; pinned and named ones stay; what is over gives its room back', () => instance.use(async (sandbox) => {
  const writer = await busy(sandbox)
  const pinned = await there.snapshot(sandbox, { kind: 'disk', pinned: true })
  const named = await there.snapshot(sandbox, { kind: 'disk', name: 'mine' })
  await set(sandbox, { disk: { everySeconds: 60, keep: [{ everySeconds: 60, count: 3 }] }, full: { everySeconds: 300, keep: [{ everySeconds: 300, count: 2 }] } })
  await until(async () => {
    const all = await scheduled(sandbox)
    return all.some((one) => one.kind === 'full') && all.at(-1).number > named.number + 12
  }, 'a dozen were taken', 120_000)
  await until(async () => (await scheduled(sandbox)).length <= 6, 'the tiers hold')
  const all = await scheduled(sandbox)
  console.log(`# ${all.map((one) => `${one.number} ${one.kind}`).join(', ')}`)
  assert.ok(all.filter((one) => one.kind === 'disk').length <= 4 && all.filter((one) => one.kind === 'full').length <= 3)
  const numbers = (await there.snapshots(sandbox)).map((one) => one.number)
  assert.ok(numbers.includes(pinned.number) && numbers.includes(named.number))
  assert.ok((await there.snapshots(sandbox)).every((one) => one.onLineage))
  assert.ok(leakTable(instance).snapshots <= numbers.length + 3, 'the pool holds what is listed')
  await set(sandbox, 'off')
  // One may be under way; then there is none for five of its distances, in which the writer would have been kept.
  let last
  await until(async () => {
    last = await newest(sandbox)
    await sleep(3_000)
    return await newest(sandbox) === last
  }, 'off is off')
  await writer.kill()
}))

test('nothing happens, nothing is taken; once something does, it is', () => instance.use(async (sandbox) => {
  await set(sandbox, { disk: { everySeconds: 60, keep: [{ everySeconds: 60, count: 5 }] } })
  let last = -1
  // Talking to it is something that happens, so it is left alone.
  for (let same = 0; same < 3;) {
    const now = await newest(sandbox)
    same = now === last ? same + 1 : 0
    last = now
    await sleep(2_000)
  }
  const writer = await busy(sandbox)
  await until(async () => (await newest(sandbox)) > last + 1, 'the writer is kept')
  await writer.kill()
}))

test('a schedule goes on after the node was away, and what it kept can be gone back to', () => instance.use(async (sandbox) => {
  await stdout(sandbox, 'echo kept > /home/user/word; sync')
  await set(sandbox, { disk: { everySeconds: 60, keep: [{ everySeconds: 60, count: 5 }] } })
  await busy(sandbox)
  await until(async () => (await newest(sandbox)) > 0, 'one is taken')
  instance.restart(fast)
  await until(() => sandbox.isRunning().catch(() => false), 'it runs again')
  const last = await newest(sandbox)
  await until(async () => (await newest(sandbox)) > last + 2, 'more are taken')
  await set(sandbox, null)
  await there.rollback(sandbox, await newest(sandbox))
  assert.equal(await word(sandbox, '/home/user/word'), 'kept')
}))

test('a quota: the oldest go, the newest stays', () => instance.use(async (sandbox) => {
  await set(sandbox, { disk: { everySeconds: 60, keep: [{ everySeconds: 60, count: 100 }] }, quotaBytes: 24 << 20 })
  const writer = await sandbox.commands.run('while :; do head -c 4000000 /dev/urandom > /home/user/data; sync /home/user/data; sleep 0.3; done', { background: true, timeoutMs: 0 })
  writer.wait().catch(() => {})
  await until(async () => (await newest(sandbox)) >= 15, 'fifteen were taken', 120_000)
  await writer.kill()
  await until(async () => {
    const { snapshots } = await there.ask('GET', sandbox, '/snapshots?measure=true')
    return snapshots.length > 0 && snapshots.reduce((sum, one) => sum + one.exclusiveBytes, 0) <= 24 << 20
  }, 'they are below the quota')
  assert.ok((await scheduled(sandbox)).length < 15)
}))

test('a schedule that cannot be met is refused with its reason, and the one before stays', () => instance.use(async (sandbox) => {
  const good = { disk: { everySeconds: 3600, keep: [{ everySeconds: 3600, count: 2 }] } }
  await set(sandbox, good)
  const kind = (everySeconds, ...keep) => ({ disk: { everySeconds, keep: keep.map(([every, count]) => ({ everySeconds: every, count })) } })
  for (const wrong of [kind(59, [59, 1]), kind(60), kind(600, [60, 3]), kind(600, [900, 3]), kind(60, [60, 100000]), {}, 'sometimes', 7]) {
    const answer = await there.call('PUT', sandbox, '/schedule', { schedule: wrong })
    const { message } = await answer.json()
    console.log(`# ${JSON.stringify(wrong)}: ${answer.status} ${message}`)
    assert.equal(answer.status, 400)
    assert.ok(message.length > 10)
  }
  assert.deepEqual((await there.ask('GET', sandbox, '/schedule')).schedule, good)
}))
