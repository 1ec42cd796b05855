// Disk snapshots through the API: how long one takes of an idle sandbox and of one that writes, what it holds alone after that, and
// what removing one costs with few and with many present.
import { print, printMachine, Samples, timed } from './lib/report.mjs'
import { diskSnapshot, life, noSchedule, removeSnapshot, rounds, Sandbox, sleep, snapshots, whenReady } from './lib/platform.mjs'
import { Subject } from './lib/subject.mjs'

const n = rounds(50)
const present = Number(process.argv[3] ?? 1000)
const warmUp = 3

async function scene(name, rate, goal) {
  const subject = await Subject.start(1, rate)
  const { sandbox } = subject
  const [took, gaps, still, held] = Array.from({ length: 4 }, () => new Samples())
  let quiesced = 0
  try {
    await noSchedule(sandbox)
    for (let i = -warmUp; i < n; ++i) {
      await sleep(200)
      await subject.gap()
      await sleep(100)
      const usual = await subject.gap()
      const made = await timed(i < 0 ? new Samples() : took, () => diskSnapshot(sandbox))
      const gap = await subject.gap()
      if (i < 0) continue
      gaps.add(gap)
      still.add(usual)
      quiesced += made.quiesced ? 1 : 0
    }
    for (const each of (await snapshots(sandbox, '?measure=true')).slice(warmUp, -1)) held.add(each.exclusiveBytes / 2 ** 20)
  } finally {
    await subject.close()
  }
  print('disk-snapshot', `disk_snapshot_${name}_ms`, took, { goal, quiesced })
  print('disk-snapshot', `stop_window_${name}_ms`, gaps, { peer: 'longest_gap_without_snapshot', peerSamples: still })
  print('disk-snapshot', `exclusive_mib_${name}`, held, { unit: 'MiB' })
}

async function removal() {
  const sandbox = await Sandbox.create(life)
  const [few, many, making] = Array.from({ length: 3 }, () => new Samples())
  try {
    await noSchedule(sandbox)
    const make = async (samples = new Samples()) => (await timed(samples, () => diskSnapshot(sandbox))).number
    const remove = (samples, number) => timed(samples, () => removeSnapshot(sandbox, number))
    const numbers = []
    for (let i = 0; i < 30; ++i) numbers.push(await make())
    for (const number of numbers.splice(5, 20)) await remove(few, number)
    while (numbers.length < present) numbers.push(await make(making))
    for (const number of numbers.splice(present / 2, 20)) await remove(many, number)
  } finally {
    await sandbox.kill()
  }
  print('disk-snapshot', `disk_snapshot_up_to_${present}_ms`, making)
  print('disk-snapshot', `remove_one_of_${present}_ms`, many, { peer: 'remove_one_of_30', peerSamples: few })
}

printMachine('disk-snapshot')
await whenReady()
await scene('idle', 0, 10)
await scene('writing_50mbs', 50, 25)
await removal()
process.exit(0)
