// Resume: hot, from a checkpoint, and a connect to a sandbox that runs; next to peers that restore, alternating.
import { BareQemu, Libvirt, Peers, Runsc } from './lib/peers.mjs'
import { print, printMachine, Samples, timed } from './lib/report.mjs'
import { execTrue, image, life, newestSnapshot, policy, rounds, Sandbox, whenCold, whenReady } from './lib/platform.mjs'
import { qemuOf } from '../tests/system/machine.mjs'

const n = rounds(30)
const figures = Object.fromEntries(['running', 'pauseHot', 'hot', 'hotExec', 'pauseCold', 'checkpoint', 'checkpointExec'].map((name) => [name, new Samples()]))

printMachine('resume')
await whenReady()
const sandbox = await Sandbox.create(life)
const connect = () => sandbox.connect(life)
await sandbox.commands.run('python3 -c "import json"') // something of a life
await policy(sandbox, { hotKeepSeconds: 0 })
await sandbox.pause()
await whenCold(sandbox)
const saved = newestSnapshot(sandbox)
await connect()
const { pid } = qemuOf(sandbox.sandboxId)
const peers = await Peers.start('resume', {
  bare: () => BareQemu.start(pid, image, saved),
  libvirt: () => Libvirt.start(pid, image),
  runsc: () => Runsc.start(image),
})

async function hotRound(record) {
  await timed(record ? figures.running : new Samples(), connect)
  await policy(sandbox, { hotKeepSeconds: 300 })
  await timed(record ? figures.pauseHot : new Samples(), () => sandbox.pause())
  await timed(record ? figures.hotExec : new Samples(), async () => {
    await timed(record ? figures.hot : new Samples(), connect)
    await execTrue(sandbox)
  })
}
async function coldRound(record) {
  await policy(sandbox, { hotKeepSeconds: 0 })
  await timed(record ? figures.pauseCold : new Samples(), async () => { await sandbox.pause(); await whenCold(sandbox) })
  await timed(record ? figures.checkpointExec : new Samples(), async () => {
    await timed(record ? figures.checkpoint : new Samples(), connect)
    await execTrue(sandbox)
  })
}

try {
  for (let i = -3; i < n; ++i) { // the first three are warm-up
    await hotRound(i >= 0)
    await coldRound(i >= 0)
    await peers.sample('bare', 'bare_restore', (peer) => peer.restore())
    if (i % 3) continue
    await peers.sample('bare', 'bare_boot', (peer) => peer.boot())
    await peers.sample('runsc', 'gvisor_restore_to_first_command', (peer) => peer.restore())
    await peers.sample('libvirt', 'libvirt_managedsave', (peer) => peer.save())
    await peers.sample('libvirt', 'libvirt_start_from_managedsave', (peer) => peer.restore())
  }
  const against = (name) => ({ peer: name, peerSamples: peers.samples[name] })
  for (const [name, samples] of Object.entries(peers.samples)) print('resume', name, samples)
  print('resume', 'connect_running_ms', figures.running, { goal: 3 })
  print('resume', 'pause_hot_ms', figures.pauseHot)
  print('resume', 'resume_hot_ms', figures.hot, { goal: 5, ...against('bare_restore') })
  print('resume', 'resume_hot_first_exec_ms', figures.hotExec)
  print('resume', 'pause_to_cold_ms', figures.pauseCold, against('libvirt_managedsave'))
  print('resume', 'resume_checkpoint_ms', figures.checkpoint, { ratioGoal: 1.25, ...against('bare_restore') })
  print('resume', 'resume_checkpoint_first_exec_ms', figures.checkpointExec, against('gvisor_restore_to_first_command'))
} finally {
  await peers.close()
  await sandbox.kill()
}
process.exit(0)
