// Checkpoint of a running sandbox: how long its program stands still, and what is written for what changed. The stop is seen from
// outside (lib/gap_watch.c): the clocks of a guest stand still with it.
import fs from 'node:fs'
import { BareQemu, Libvirt, Peers, Runsc } from './lib/peers.mjs'
import { print, printMachine, Samples, timed } from './lib/report.mjs'
import { checkpoint, image, life, newestSnapshot, rounds, Sandbox, sleep, whenReady } from './lib/platform.mjs'
import { Subject } from './lib/subject.mjs'
import { qemuOf } from '../tests/system/machine.mjs'

const n = rounds(10)
const page = 4096

// Pages of the newer snapshot's memory that are not those of the older one's.
function changedPages(older, newer) {
  const fds = [older, newer].map((folder) => fs.openSync(`${folder}/mem.raw`, 'r'))
  const pieces = fds.map(() => Buffer.alloc(1 << 20))
  let changed = 0
  for (let at = 0, size = fs.fstatSync(fds[1]).size; at < size; at += 1 << 20) {
    fds.forEach((fd, i) => fs.readSync(fd, pieces[i], 0, 1 << 20, at))
    if (pieces[0].equals(pieces[1])) continue
    for (let k = 0; k < 1 << 20; k += page) if (pieces[0].compare(pieces[1], k, k + page, k, k + page) !== 0) ++changed
  }
  fds.forEach((fd) => fs.closeSync(fd))
  return changed
}

async function scene(name, megabytes, rate, goal) {
  const subject = await Subject.start(megabytes, rate)
  const [still, window, answer, told, bytes] = Array.from({ length: 5 }, () => new Samples())
  let older
  try {
    for (let i = -2; i < n; ++i) { // the first two are warm-up
      if (megabytes > 1) await subject.dirty()
      await sleep(300)
      await subject.gap()
      await sleep(500)
      const usual = await subject.gap() // as long without a checkpoint: what emulation and other load cost by themselves
      const took = new Samples()
      const made = await timed(took, () => checkpoint(subject.sandbox))
      const gap = await subject.gap()
      const newer = newestSnapshot(subject.sandbox)
      if (i >= 0) {
        still.add(usual)
        window.add(gap)
        answer.add(took.percentile(50))
        told.add(made.stopWindowUs / 1000)
        bytes.add(made.writtenBytes / (changedPages(older, newer) * page))
      }
      older = newer
    }
  } finally {
    await subject.close()
  }
  print('checkpoint', `stop_window_${name}_ms`, window, { goal, peer: 'longest_gap_without_checkpoint', peerSamples: still })
  print('checkpoint', `stop_window_${name}_as_told_ms`, told)
  print('checkpoint', `checkpoint_${name}_ms`, answer)
  print('checkpoint', `written_per_changed_${name}`, bytes, { unit: 'ratio', goal: 1.05 })
}

async function peersScene() {
  const sandbox = await Sandbox.create(life)
  const { pid } = qemuOf(sandbox.sandboxId)
  const peers = await Peers.start('checkpoint', {
    bare: () => BareQemu.start(pid, image),
    libvirt: () => Libvirt.start(pid, image),
    runsc: () => Runsc.start(image),
  })
  const ours = new Samples()
  for (let i = 0; i < Math.ceil(n / 2); ++i) {
    await timed(ours, () => checkpoint(sandbox))
    await peers.sample('bare', 'bare_full_save', async (peer) => (await peer.ask('save')).ms)
    await peers.sample('libvirt', 'libvirt_managedsave', (peer) => peer.save())
    await peers.sample('libvirt', 'libvirt_start_from_managedsave', (peer) => peer.restore())
    await peers.sample('runsc', 'gvisor_checkpoint', (peer) => peer.checkpoint())
  }
  for (const [name, samples] of Object.entries(peers.samples)) print('checkpoint', name, samples)
  print('checkpoint', 'checkpoint_idle_ms', ours, { peer: 'libvirt_managedsave', peerSamples: peers.samples.libvirt_managedsave })
  await peers.close()
  await sandbox.kill()
}

printMachine('checkpoint')
await whenReady()
await scene('idle', 1, 0, 25)
await scene('64mb', 64, 0, 35)
await scene('64mb_writing_50mbs', 64, 50, 35)
await peersScene()
process.exit(0)
