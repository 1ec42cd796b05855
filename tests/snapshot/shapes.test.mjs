// Checkpoint, pause and restore in other shapes: little and much memory, several processors.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { Sandbox } from '../e2b/sdk.mjs'
import { run, space, state } from '../system/machine.mjs'
import { Asked, checkpoint, life, long, pauseCold, resume, stdout, upload } from './sandboxes.mjs'

const shapes = [{ vcpus: 1, memoryMib: 128 }, { vcpus: 2, memoryMib: 1024 }, ...(long ? [{ vcpus: 2, memoryMib: 512 }, { vcpus: 4, memoryMib: 4096 }] : [])]

// The recipe of `base` with another shape.
function build({ vcpus, memoryMib }) {
  const name = `shape-${vcpus}-${memoryMib}`
  const recipe = fs.mkdtempSync('/tmp/space-recipe-')
  fs.cpSync(`${import.meta.dirname}/../../images/base`, recipe, { recursive: true })
  const conf = fs.readFileSync(`${recipe}/template.conf`, 'utf8').replace(/^vcpus=.*/m, `vcpus=${vcpus}`).replace(/^memory_mib=.*/m, `memory_mib=${memoryMib}`).replace(/^name=.*/m, `name=${name}`)
  fs.writeFileSync(`${recipe}/template.conf`, conf)
  space('template', 'build', name, '--recipe', recipe, '--state', state, '--run', run)
  fs.rmSync(recipe, { recursive: true })
  return name
}

for (const shape of shapes) {
  test(`${shape.vcpus} vCPU, ${shape.memoryMib} MiB: created, checkpointed, paused and restored with busy programs`, async () => {
    const name = build(shape)
    const sandbox = await Sandbox.create(name, life)
    try {
      assert.equal((await stdout(sandbox, 'nproc')).trim(), String(shape.vcpus))
      const program = await Asked.start(sandbox, `exec ${await upload(sandbox, 'dirty')} ${Math.floor(shape.memoryMib / 4)}`)
      assert.equal(await program.line('start'), 'ready')
      const sum = await program.ask('sum')
      await stdout(sandbox, `for i in $(seq ${shape.vcpus}); do setsid sh -c 'while :; do :; done' >/dev/null 2>&1 & done; disown -a`)
      for (let i = 0; i < 2; ++i) {
        const made = await checkpoint(sandbox)
        console.log(`# ${shape.vcpus} vCPU, ${shape.memoryMib} MiB: ${made.dirtyBytes >> 20} MiB changed, stopped ${made.stopWindowUs} us, quiesced ${made.quiesced}`)
        await pauseCold(sandbox)
        await resume(sandbox)
        await program.again()
        assert.equal(await program.ask('sum'), sum)
      }
      assert.equal((await stdout(sandbox, 'pgrep -c -f "while :"')).trim(), String(shape.vcpus))
    } finally {
      await sandbox.kill()
      space('template', 'rm', name)
    }
  })
}
