// Fork of a running sandbox through the API: one child to its first command next to a bare restore of the same snapshot, ten,
// a hundred, and how long the parent's program stands still for one.
import { BareQemu, Peers } from './lib/peers.mjs'
import { print, printMachine, Samples, Stopwatch, timed } from './lib/report.mjs'
import { execTrue, fork, image, killAll, life, newestSnapshot, noSchedule, rounds, Sandbox, sleep, snapshots, whenReady } from './lib/platform.mjs'
import { Subject } from './lib/subject.mjs'
import { qemuOf } from '../tests/system/machine.mjs'

const n = rounds(20)

async function children(parent, count) {
  const { children: made, errors } = await fork(parent, count)
  if (errors.length > 0) throw new Error(`${errors.length} of ${count} forks failed: ${JSON.stringify(errors[0])}`)
  return made
}

async function one(parent) {
  const [answer, command, told] = Array.from({ length: 3 }, () => new Samples())
  await killAll(await children(parent, 1))
  const peers = await Peers.start('fork', { bare: () => BareQemu.start(qemuOf(parent.sandboxId).pid, image, newestSnapshot(parent)) })
  for (let i = -2; i < n; ++i) { // the first two are warm-up
    const watch = new Stopwatch()
    const [child] = await children(parent, 1)
    const answered = watch.ms()
    await execTrue(child)
    if (i >= 0) {
      answer.add(answered)
      command.add(watch.ms())
      told.add((await snapshots(parent)).at(-1).stopWindowUs / 1000)
      await peers.sample('bare', 'bare_restore', (peer) => peer.restore())
      await peers.sample('bare', 'bare_first_command', (peer) => peer.firstCommand(parent.envdAccessToken))
    }
    await killAll([child])
  }
  for (const name of ['bare_restore', 'bare_first_command']) print('fork', name, peers.samples[name] ?? new Samples())
  const against = (peer) => ({ peer, peerSamples: peers.samples[peer] })
  print('fork', 'fork_answer_ms', answer, against('bare_restore'))
  print('fork', 'fork_first_command_ms', command, { ratioGoal: 1.4, ...against('bare_first_command') })
  print('fork', 'parent_stop_window_as_told_ms', told)
  await peers.close()
}

async function ten(parent) {
  const [wall, commands] = [new Samples(), new Samples()]
  for (let i = -1; i < Math.ceil(n / 4); ++i) {
    const watch = new Stopwatch()
    const made = await children(parent, 10)
    if (i >= 0) wall.add(watch.ms())
    await Promise.all(made.map(execTrue))
    if (i >= 0) commands.add(watch.ms())
    await killAll(made)
    await sleep(500)
  }
  print('fork', 'fork_ten_wall_ms', wall, { goal: 1000 })
  print('fork', 'fork_ten_first_commands_ms', commands)
}

// What fails is counted, not thrown.
async function hundred(parent) {
  const wall = new Samples()
  const { children: made, errors } = await timed(wall, () => fork(parent, 100))
  const commands = new Samples()
  const answered = await timed(commands, () => Promise.allSettled(made.map(execTrue)))
  const failures = errors.length + answered.filter((each) => each.status === 'rejected').length
  print('fork', 'fork_hundred_wall_ms', wall, { failures, failures_goal: 0, ...(errors.length ? { error: errors[0].message } : {}) })
  print('fork', 'fork_hundred_first_commands_after_ms', commands)
  await killAll(made)
}

async function stopWindow() {
  const subject = await Subject.start(1, 0)
  const [still, window] = [new Samples(), new Samples()]
  try {
    await noSchedule(subject.sandbox)
    for (let i = -2; i < Math.ceil(n / 2); ++i) {
      await sleep(300)
      await subject.gap()
      await sleep(500)
      const usual = await subject.gap()
      const made = await children(subject.sandbox, 1)
      const gap = await subject.gap()
      await killAll(made)
      if (i < 0) continue
      still.add(usual)
      window.add(gap)
    }
  } finally {
    await subject.close()
  }
  print('fork', 'parent_stop_window_ms', window, { peer: 'longest_gap_without_fork', peerSamples: still })
}

printMachine('fork')
await whenReady()
const parent = await Sandbox.create(life)
try {
  await noSchedule(parent)
  await parent.commands.run('python3 -c "import json"') // something of a life
  await one(parent)
  await ten(parent)
  await hundred(parent)
} finally {
  await parent.kill()
}
await stopWindow()
process.exit(0)
