// No room, broken writes, refusals in the middle of a checkpoint: the sandbox runs on, what was kept is as it was, nothing half stays.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Sandbox, until } from '../e2b/sdk.mjs'
import { qemuOf, quietTable, settled } from '../system/machine.mjs'
import { Instance } from './instance.mjs'
import { stdout } from './sandboxes.mjs'

let instance
before(async () => { instance = await Instance.start() })
after(() => instance.stop())

const faults = ['enospc-pages', 'eio-pages', 'eio-vmstate', 'eio-manifest', 'fail-device-state', 'fail-snapshot-begin', 'fail-snapshot-finish']
for (const fault of faults) {
  test(`${fault}: the checkpoint fails with its reason, the sandbox runs on, the one before stays; a pause keeps its memory`, async () => {
    instance.restart('')
    await instance.use(async (sandbox) => {
      await stdout(sandbox, 'echo kept > /dev/shm/word')
      const good = await instance.checkpoint(sandbox)
      instance.restart(`--fault ${fault}`)
      await until(async () => sandbox.isRunning().catch(() => false), 'it runs again')
      const kept = (await instance.snapshots(sandbox)).map((one) => one.number)
      assert.ok(kept.includes(good.number) || kept.length > 0)
      const table = await quietTable(instance)
      for (let i = 0; i < 2; ++i) {
        const refused = await instance.call('POST', `/v1/sandboxes/${sandbox.sandboxId}/snapshots`)
        const answer = await refused.json()
        if (i === 0) console.log(`# ${refused.status}: ${answer.message}`)
        assert.ok(refused.status >= 500, `${refused.status}`)
        assert.ok(answer.message.length > 10)
        assert.equal(await stdout(sandbox, 'cat /dev/shm/word'), 'kept\n')
      }
      assert.deepEqual((await instance.snapshots(sandbox)).map((one) => one.number), kept)
      await settled(table, instance)
      // Hot at first, and then it cannot turn cold: its memory must stay where it is.
      await instance.call('PUT', `/v1/sandboxes/${sandbox.sandboxId}/pause-policy`, { hotKeepSeconds: 0 })
      const paused = await sandbox.pause().then(() => true, () => false)
      await new Promise((resolve) => setTimeout(resolve, 1_000))
      assert.ok(qemuOf(sandbox.sandboxId, instance.run), `its memory is there (paused: ${paused})`)
      await Sandbox.connect(sandbox.sandboxId, instance.options())
      assert.equal(await stdout(sandbox, 'cat /dev/shm/word'), 'kept\n')
    })
  })
}

test('the same instance without a fault: a checkpoint is made, so the refusals were the faults', async () => {
  instance.restart('')
  await instance.use(async (sandbox) => assert.equal((await instance.checkpoint(sandbox)).quiesced, true))
})

test('a pool that is really full: checkpoints are refused with the reason, the sandbox runs on; room makes them work again', async () => {
  const small = await Instance.start({ flags: ['--pool-mib', '1536'] })
  try {
    const [filler, subject] = await Promise.all([small.create(), small.create()])
    await stdout(subject, 'echo kept > /dev/shm/word')
    await filler.commands.run('dd if=/dev/urandom of=/filler bs=1M count=3000 conv=fsync 2>/dev/null', { user: 'root', background: true, timeoutMs: 0 })
    let answer
    await until(async () => {
      answer = await small.call('POST', `/v1/sandboxes/${subject.sandboxId}/snapshots`)
      return !answer.ok
    }, 'the pool is full', 240_000)
    const { message } = await answer.json()
    console.log(`# ${answer.status}: ${message}`)
    assert.ok(answer.status >= 500 || answer.status === 429)
    assert.match(message, /pool is full|no room|space left/i)
    assert.equal(await stdout(subject, 'cat /dev/shm/word'), 'kept\n')
    await small.kill(filler)
    await until(async () => (await small.call('POST', `/v1/sandboxes/${subject.sandboxId}/snapshots`)).ok, 'a checkpoint is made again', 120_000)
    assert.equal(await stdout(subject, 'cat /dev/shm/word'), 'kept\n')
  } finally {
    small.stop()
  }
})
