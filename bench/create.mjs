// Create: from the pool, cold, a hundred at once; each next to what it is made of and to its peers, alternating.
import { Peers, BareQemu, Libvirt, Runc, Runsc } from './lib/peers.mjs'
import { print, printMachine, Samples, say, Stopwatch, timed } from './lib/report.mjs'
import { execTrue, image, killAll, life, pool, rounds, Sandbox, setPool, sleep, templateSnapshot, until, upload, whenParked, whenReady } from './lib/platform.mjs'
import { qemuOf } from '../tests/system/machine.mjs'

const n = rounds(40)
const parked = 8
const burst = 100
const figures = Object.fromEntries(['warm', 'firstExec', 'firstCommand', 'floor', 'overFloor', 'cold', 'coldExec'].map((name) => [name, new Samples()]))

// A sandbox made, and whether it came from the pool.
async function made(use) {
  const before = await pool()
  const watch = new Stopwatch()
  const sandbox = await Sandbox.create(life)
  const created = watch.ms()
  try {
    await use(sandbox, watch)
  } finally {
    await sandbox.kill()
  }
  return { created, hit: (await pool()).hits > before.hits }
}

async function warmRound(floorOf) {
  await until(async () => (await pool()).parked > 0, 'a parked VM')
  let exec
  const first = await made(async (sandbox, watch) => { await execTrue(sandbox); exec = watch.ms() })
  if (first.hit) { figures.warm.add(first.created); figures.firstExec.add(exec) }
  await until(async () => (await pool()).parked > 0, 'a parked VM')
  let command
  const second = await made(async (sandbox, watch) => { await sandbox.commands.run('true'); command = watch.ms() })
  const floor = await floorOf()
  figures.floor.add(floor)
  if (second.hit) { figures.warm.add(second.created); figures.firstCommand.add(command); figures.overFloor.add(command - floor) }
}

async function coldRound() {
  let exec
  const { created, hit } = await made(async (sandbox, watch) => { await execTrue(sandbox); exec = watch.ms() })
  if (hit) throw new Error('the pool was to be empty')
  figures.cold.add(created)
  figures.coldExec.add(exec)
}

async function bursts(target) {
  await setPool(target)
  await whenParked(target)
  const each = new Samples()
  const watch = new Stopwatch()
  const answers = await Promise.allSettled(Array.from({ length: burst }, () => timed(each, () => Sandbox.create({ ...life, requestTimeoutMs: 300_000 }))))
  const wall = watch.ms()
  const there = answers.filter((answer) => answer.status === 'fulfilled').map((answer) => answer.value)
  const failed = answers.filter((answer) => answer.status === 'rejected').map((answer) => String(answer.reason).slice(0, 200))
  await killAll(there)
  print('create', `burst_${burst}_ms`, each, { wall_ms: Math.round(wall), p95: Math.round(each.percentile(95)), failures: failed.length, pool: target })
  if (failed.length) say({ bench: 'create', metric: `burst_${burst}_failures`, first: failed[0] })
}

printMachine('create')
await whenReady()
const witness = await Sandbox.create(life)
const floorProgram = await upload(witness, 'floor')
const floorOf = async () => Number((await witness.commands.run(`${floorProgram} 1`)).stdout)
const { pid } = qemuOf(witness.sandboxId)
const peers = await Peers.start('create', {
  bare: () => BareQemu.start(pid, image, templateSnapshot()),
  libvirt: () => Libvirt.start(pid, image),
  runc: () => Runc.start(image),
  runsc: () => Runsc.start(image),
})
try {
  await setPool(parked)
  await whenParked(parked)
  for (let i = 0; i < 5; ++i) { await made((sandbox) => execTrue(sandbox)); await floorOf() } // warm-up
  for (let i = 0; i < n; ++i) {
    await warmRound(floorOf)
    await peers.sample('runc', 'runc_create_to_first_command', (peer) => peer.createToFirstCommand())
    await sleep(100)
  }
  await setPool(0)
  await whenParked(0)
  for (let i = 0; i < Math.ceil(n / 2); ++i) {
    await coldRound()
    await peers.sample('bare', 'bare_restore', (peer) => peer.restore())
    await peers.sample('runsc', 'gvisor_restore_to_first_command', (peer) => peer.restore())
    if (i % 4) continue
    await peers.sample('bare', 'bare_boot', (peer) => peer.boot())
    await peers.sample('libvirt', 'libvirt_managedsave', (peer) => peer.save())
    await peers.sample('libvirt', 'libvirt_start_from_managedsave', (peer) => peer.restore())
  }
  const against = (name) => ({ peer: name, peerSamples: peers.samples[name] })
  for (const [name, samples] of Object.entries(peers.samples)) print('create', name, samples)
  print('create', 'create_warm_ms', figures.warm, { goal: 5, p90Goal: 10, ...against('bare_restore') })
  print('create', 'create_first_exec_ms', figures.firstExec, { goal: 15, ...against('runc_create_to_first_command') })
  print('create', 'guest_bash_floor', figures.floor)
  print('create', 'create_first_command_ms', figures.firstCommand, { peer: 'guest_bash_floor', peerSamples: figures.floor })
  print('create', 'create_first_command_over_floor', figures.overFloor, { goal: 8 })
  print('create', 'create_cold_ms', figures.cold, { ratioGoal: 1.35, ...against('bare_restore') })
  print('create', 'create_cold_first_exec_ms', figures.coldExec, against('gvisor_restore_to_first_command'))
  await killAll([witness])
  await bursts(parked)
  await bursts(0)
} finally {
  await peers.close()
}
process.exit(0) // the SDK keeps connections
