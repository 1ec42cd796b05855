// Memory and disk of a checkpoint are of one instant: a program counts in memory and in a file that no cache hides, thousands of
// times a second. Looked at in the guest after every restore, and in the files of every checkpoint.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../e2b/sdk.mjs'
import { checkpoint, fileOf, findPage, inFresh, long, pauseCold, readAt, resume, stdout, upload } from './sandboxes.mjs'
import { Instance } from './instance.mjs'

const rounds = long ? 60 : 8
const file = '/home/user/counter'
const status = '/dev/shm/counter'

export async function startCounter(sandbox, options) {
  const program = await upload(sandbox, 'counter')
  const handle = await sandbox.commands.run(`exec ${program} run ${file} ${status}`, { background: true, timeoutMs: 0, ...options })
  handle.wait().catch(() => {})
  await until(() => handle.stdout.includes('\n'), 'the counter runs')
  return { ...JSON.parse(handle.stdout), show: async () => JSON.parse(await stdout(sandbox, `${program} show ${status}`)) }
}

// Both numbers of the checkpoint's own files.
function inFiles(counter, memory, disk) {
  const at = findPage(memory, Buffer.from(counter.magic, 'hex'))
  assert.ok(at >= 0, 'the counter is in the memory of the checkpoint')
  const block = readAt(disk, counter.physical, 32)
  assert.equal(block.subarray(0, 16).toString('hex'), counter.buffer_magic, 'the counter is on the disk of the checkpoint')
  return { ram: Number(readAt(memory, at, 32).readBigUInt64LE(16)), disk: Number(block.readBigUInt64LE(16)) }
}

async function moved(counter, from, steps = 50) {
  let now
  await until(async () => { now = await counter.show(); return now.steps > from.steps + steps }, 'the counter goes on')
  return now
}

test(`a counter in memory and on disk agrees in ${rounds} checkpoints of the running sandbox`, () => inFresh(async (sandbox) => {
  const counter = await startCounter(sandbox)
  let seen = await counter.show()
  const begin = { at: Date.now(), steps: seen.steps }
  for (let round = 0; round < rounds; ++round) {
    seen = await moved(counter, seen)
    const made = await checkpoint(sandbox)
    assert.equal(made.quiesced, true)
    const { ram, disk } = inFiles(counter, fileOf(sandbox, made.number, 'mem.raw'), fileOf(sandbox, made.number, 'disk.raw'))
    assert.ok(disk >= seen.ram, `the checkpoint is older than what was seen before it: ${disk} < ${seen.ram}`)
    assert.ok(ram - disk >= 0 && ram - disk <= 1, `memory says ${ram}, disk ${disk}`)
    console.log(`# checkpoint ${made.number}: memory ${ram}, disk ${disk}, stopped ${made.stopWindowUs} us`)
  }
  seen = await moved(counter, seen)
  console.log(`# ${Math.round(((seen.steps - begin.steps) * 1000) / (Date.now() - begin.at))} steps a second`)
  assert.deepEqual([seen.mismatches, seen.worst], [0, 0])
}))

test(`it agrees after each of ${rounds} restores from a pause`, () => inFresh(async (sandbox) => {
  const counter = await startCounter(sandbox)
  let seen = await counter.show()
  for (let round = 0; round < rounds; ++round) {
    seen = await moved(counter, seen)
    await pauseCold(sandbox)
    await resume(sandbox)
    const now = await moved(counter, seen)
    assert.deepEqual([now.mismatches, now.worst], [0, 0], `after restore ${round + 1}`)
    seen = now
  }
  console.log(`# ${seen.steps} steps over ${rounds} restores, none apart`)
}))

test('the test can see: a checkpoint that lets the machine run before its disk is copied is apart', async () => {
  const instance = await Instance.start({ options: '--fault cont-before-clone' })
  try {
    const apart = await instance.use(async (sandbox) => {
      const counter = await startCounter(sandbox)
      await moved(counter, await counter.show())
      const found = []
      for (let round = 0; round < 5 && found.length === 0; ++round) {
        const made = await instance.checkpoint(sandbox)
        const folder = `${instance.state}/pool/snapshots/${sandbox.sandboxId}/${made.number}`
        const { ram, disk } = inFiles(counter, `${folder}/mem.raw`, `${folder}/disk.raw`)
        console.log(`# with the fault: memory ${ram}, disk ${disk}`)
        if (ram - disk < 0 || ram - disk > 1) found.push(disk - ram)
      }
      return found
    })
    assert.ok(apart.length > 0, 'the fault was not noticed')
  } finally {
    instance.stop()
  }
})
