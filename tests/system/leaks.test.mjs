// 200 sandboxes made and killed, most of them in the middle of their start: the kernel's table is the same after.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { api, Sandbox, sleep, until } from '../e2b/sdk.mjs'
import { leakTable, printTables, quietTable } from './machine.mjs'

const whole = 30
const interrupted = 170

test(`${whole + interrupted} create/kill cycles leave nothing: processes, uids, descriptors, subvolumes, loops, cgroups, namespaces, taps`, async () => {
  const warm = await Sandbox.create()   // connections and caches that stay are made before the first count
  await warm.kill()
  const before = await quietTable()

  const seen = await Sandbox.create()   // the table can see: one sandbox more is more of everything
  const during = leakTable()
  for (const key of ['vmProcesses', 'vmUids', 'subvolumes', 'cgroups', 'netns', 'taps', 'vmFolders'])
    assert.ok(during[key] > before[key], `${key} does not see a running sandbox`)
  await seen.kill()

  for (let done = 1; done < whole; done += 2) {
    const pair = await Promise.all([Sandbox.create(), Sandbox.create()])
    await Promise.all(pair.map((sandbox) => sandbox.kill()))
  }
  for (let done = 0; done < interrupted; done += 2) await Promise.all([interruptedCycle(done), interruptedCycle(done + 1)])

  await until(() => JSON.stringify(leakTable()) === JSON.stringify(before), 'the table returns', 30_000).catch(() => {})
  const after = leakTable()
  printTables(before, after)
  assert.deepEqual(after, before)
})

// Delete wins over a create under way, at whatever point of the start it comes.
async function interruptedCycle(number) {
  const mark = `leak-${process.pid}-${number}`
  const creating = api('POST', '/v2/sandboxes', { templateID: 'base', metadata: { mark } }).catch(() => undefined)
  await sleep((number * 37) % 1200)
  let id
  await until(async () => {
    const found = await (await api('GET', `/v2/sandboxes?metadata=${encodeURIComponent(encodeURIComponent(`mark=${mark}`))}`)).json()
    id = found[0]?.sandboxID
    return id !== undefined
  }, 'the sandbox appears in the list')
  assert.equal((await api('DELETE', `/sandboxes/${id}`)).status, 204)
  await creating
  assert.equal((await api('GET', `/sandboxes/${id}`)).status, 404)
}
