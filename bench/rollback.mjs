// Rollback of a running sandbox through the API, to its answer and to the first command after it: to a checkpoint, next to a bare
// restore of it, and to a disk snapshot, next to a bare boot. What is kept of the state before is in it.
import { BareQemu, Peers } from './lib/peers.mjs'
import { print, printMachine, Samples, Stopwatch } from './lib/report.mjs'
import { checkpoint, diskSnapshot, execTrue, image, life, newestSnapshot, noSchedule, rollback, rounds, Sandbox, whenReady } from './lib/platform.mjs'
import { qemuOf } from '../tests/system/machine.mjs'

const n = rounds(15)
const [answer, command, undone, bootAnswer, bootCommand] = Array.from({ length: 5 }, () => new Samples())

async function round(sandbox, wish, answered, commanded) {
  const watch = new Stopwatch()
  await rollback(sandbox, wish)
  if (answered) answered.add(watch.ms())
  await execTrue(sandbox)
  if (commanded) commanded.add(watch.ms())
}

printMachine('rollback')
await whenReady()
const sandbox = await Sandbox.create(life)
await noSchedule(sandbox)
await sandbox.commands.run('python3 -c "import json"') // something of a life
const full = (await checkpoint(sandbox)).number
const saved = newestSnapshot(sandbox)
const disk = (await diskSnapshot(sandbox)).number
const peers = await Peers.start('rollback', { bare: () => BareQemu.start(qemuOf(sandbox.sandboxId).pid, image, saved) })
try {
  for (let i = -2; i < n; ++i) { // the first two are warm-up
    const counts = i >= 0
    await round(sandbox, { snapshot: full }, counts && answer, counts && command)
    if (counts) {
      await peers.sample('bare', 'bare_restore', (peer) => peer.restore())
      await peers.sample('bare', 'bare_first_command', (peer) => peer.firstCommand(sandbox.envdAccessToken))
    }
    if (i % 3) continue
    await round(sandbox, { undo: true }, counts && undone)
    await round(sandbox, { snapshot: disk }, counts && bootAnswer, counts && bootCommand)
    if (counts) await peers.sample('bare', 'bare_boot', (peer) => peer.boot())
  }
  const against = (name) => ({ peer: name, peerSamples: peers.samples[name] })
  for (const [name, samples] of Object.entries(peers.samples)) print('rollback', name, samples)
  print('rollback', 'rollback_checkpoint_ms', answer, { ratioGoal: 1.5, ...against('bare_restore') })
  print('rollback', 'rollback_checkpoint_first_command_ms', command, against('bare_first_command'))
  print('rollback', 'rollback_undo_ms', undone, against('bare_restore'))
  print('rollback', 'rollback_disk_ms', bootAnswer, against('bare_boot'))
  print('rollback', 'rollback_disk_first_command_ms', bootCommand, against('bare_boot'))
} finally {
  await peers.close()
  await sandbox.kill()
}
process.exit(0)
