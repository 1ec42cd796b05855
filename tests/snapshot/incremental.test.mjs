// Checkpoints of what changed since the one before hold all of the memory, and what is restored from them is whole.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { Asked, checkpoint, differentPages, fileOf, hasMemory, inFresh, pauseCold, policy, readMemory, resume, snapshots, upload, whenCold } from './sandboxes.mjs'

// Paused with its memory kept for a while, so that a full dump of it can be taken before the checkpoint is.
async function dumpOfPaused(sandbox) {
  await policy(sandbox, { hotKeepSeconds: 4 })
  assert.equal(await sandbox.pause(), true)
  assert.ok(hasMemory(sandbox), 'a hot pause keeps the memory')
  const memory = readMemory(sandbox)
  await whenCold(sandbox)
  return memory
}

test('ten incremental checkpoints under random changes equal a full dump, page for page', () => inFresh(async (sandbox) => {
  const program = await Asked.start(sandbox, `exec ${await upload(sandbox, 'dirty')} 64`)
  assert.equal(await program.line('start'), 'ready')
  const change = async (round) => {
    assert.equal(await program.ask(`dirty ${100 + round * 150}`), 'done')
    assert.equal(await program.ask(`zero ${round * 20}`), 'done')
  }
  for (let round = 1; round <= 10; ++round) {
    await change(round)
    const made = await checkpoint(sandbox)
    assert.equal(made.parent, (await snapshots(sandbox)).at(-2)?.number ?? made.parent)
    console.log(`# checkpoint ${made.number}: ${made.dirtyBytes / 4096} pages changed, ${made.writtenBytes / 4096} written`)
    if (round % 2) continue
    await change(round)
    const memory = await dumpOfPaused(sandbox)
    const last = (await snapshots(sandbox)).at(-1)
    assert.ok(last.number > made.number)
    assert.deepEqual(differentPages(memory, fileOf(sandbox, last.number, 'mem.raw')), [], `checkpoint ${last.number} is not what the machine held`)
    // The comparison can see: the checkpoint before is another memory.
    assert.ok(differentPages(memory, fileOf(sandbox, made.number, 'mem.raw')).length > 100)
    await resume(sandbox)
    await program.again()
  }
}))

test('what is restored of a restore of a restore is whole', () => inFresh(async (sandbox) => {
  const program = await Asked.start(sandbox, `exec ${await upload(sandbox, 'dirty')} 192`)
  assert.equal(await program.line('start'), 'ready')
  const sum = await program.ask('sum')
  for (let i = 0; i < 3; ++i) {
    await pauseCold(sandbox)
    await resume(sandbox)
  }
  await program.again()
  assert.equal(await program.ask('sum'), sum)
  // The sum can see one changed page.
  assert.equal(await program.ask('dirty 1'), 'done')
  assert.notEqual(await program.ask('sum'), sum)
}))

test('all that is zero and all that is free in the guest is a hole', () => inFresh(async (sandbox) => {
  const program = await Asked.start(sandbox, `exec ${await upload(sandbox, 'dirty')} 128`)
  assert.equal(await program.line('start'), 'ready')
  const used = (number) => fs.statSync(fileOf(sandbox, number, 'mem.raw')).blocks * 512
  const full = await checkpoint(sandbox)
  await sandbox.commands.sendStdin(program.pid, 'quit\n')
  await program.handle.wait()
  const freed = await checkpoint(sandbox)
  console.log(`# ${used(full.number) >> 20} MiB while the program held 128 MiB, ${used(freed.number) >> 20} MiB after it ended`)
  assert.ok(used(full.number) - used(freed.number) > 100 << 20)
}))
