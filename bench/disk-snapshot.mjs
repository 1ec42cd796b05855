// Disk snapshots through the API: how long one takes of an idle sandbox and of one that writes, what it holds alone after that, and
// what making and removing one costs with few and with many present.
import { print, printMachine, Samples, Stopwatch, timed } from './lib/report.mjs'
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
  let written
  try {
    await noSchedule(sandbox)
    written = await subject.writing()
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
    written = await written.rate()
    for (const each of (await snapshots(sandbox, '?measure=true')).slice(warmUp, -1)) held.add(each.exclusiveBytes / 2 ** 20)
  } finally {
    await subject.close()
  }
  print('disk-snapshot', `disk_snapshot_${name}_ms`, took, { goal, quiesced, ...(rate ? { written_mb_per_s: written } : {}) })
  print('disk-snapshot', `stop_window_${name}_ms`, gaps, { peer: 'longest_gap_without_snapshot', peerSamples: still })
  print('disk-snapshot', `exclusive_mib_${name}`, held, { unit: 'MiB' })
}

async function many() {
  const sandbox = await Sandbox.create(life)
  const [making, few, removing] = Array.from({ length: 3 }, () => new Samples())
  const numbers = []
  const make = async (samples) => numbers.push((await timed(samples, () => diskSnapshot(sandbox))).number)
  const remove = async (samples) => {
    for (const number of numbers.splice(numbers.length / 2, 20)) await timed(samples, () => removeSnapshot(sandbox, number))
  }
  const watch = new Stopwatch()
  try {
    await noSchedule(sandbox)
    while (numbers.length < 30) await make(making)
    await remove(few)
    while (numbers.length < present) await make(making)
    const found = (await snapshots(sandbox)).length
    if (found !== present) throw new Error(`${found} snapshots are there, not ${present}`)
    await remove(removing)
  } finally {
    await sandbox.kill()
  }
  const [first, last] = [new Samples(), new Samples()]
  for (const value of making.values.slice(warmUp, warmUp + 100)) first.add(value)
  for (const value of making.values.slice(-100)) last.add(value)
  print('disk-snapshot', `disk_snapshot_with_${present}_ms`, last, { peer: 'with_few', peerSamples: first })
  print('disk-snapshot', `remove_one_of_${present}_ms`, removing, { peer: 'remove_one_of_30', peerSamples: few, all_took_s: Math.round(watch.ms() / 1000) })
}

printMachine('disk-snapshot')
await whenReady()
await scene('idle', 0, 10)
await scene('writing_50mbs', 50, 25)
await many()
process.exit(0)
