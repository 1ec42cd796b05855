// Density: what one more sandbox costs in memory and disk, idle, paused and back from a checkpoint. Memory from the kernel's
// smaps of the QEMU processes: private is anonymous memory, which nobody else has and no file could give again (smaps' own "private" counts
// pages of files that happen to be mapped once); proportional divides what is shared among those who share it.
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { print, printMachine, Samples } from './lib/report.mjs'
import { life, policy, rounds, Sandbox, sleep, whenCold, whenReady } from './lib/platform.mjs'
import { daemon, qemuOf, state } from '../tests/system/machine.mjs'

const n = rounds(10)
const mib = 1024

// MiB of a process: all of it, and that part which is the guest's memory.
function memoryOf(pid) {
  const sum = (text, ...names) => names.reduce((total, name) => total + Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0), 0) / mib
  const all = fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  const parts = fs.readFileSync(`/proc/${pid}/smaps`, 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m).filter((part) => / \/memory\s*$/.test(part.split('\n')[0]))
  if (parts.length === 0 && !fs.readlinkSync(`/proc/${pid}/exe`).includes('space-')) throw new Error(`no guest memory in ${pid}`)
  return { private: sum(all, 'Anonymous'), proportional: sum(all, 'Pss'), guestPrivate: parts.reduce((total, part) => total + sum(part, 'Anonymous'), 0) }
}

// Bytes on the pool that are its alone.
function exclusive(path) {
  const line = execFileSync('btrfs', ['filesystem', 'du', '--raw', '-s', path], { encoding: 'utf8' }).trim().split('\n').at(-1)
  return Number(line.trim().split(/\s+/)[1]) / mib / mib
}

function tell(what, sandboxes) {
  const seen = sandboxes.map((sandbox) => memoryOf(qemuOf(sandbox.sandboxId).pid))
  const samples = (key) => { const all = new Samples(); for (const one of seen) all.add(one[key]); return all }
  const vmm = new Samples()
  for (const one of seen) vmm.add(one.private - one.guestPrivate)
  print('density', `private_mib_${what}`, samples('private'), { unit: 'MiB' })
  print('density', `proportional_mib_${what}`, samples('proportional'), { unit: 'MiB' })
  print('density', `private_guest_mib_${what}`, samples('guestPrivate'), { unit: 'MiB', ...(what === 'idle' ? { goal: 2 } : {}) })
  print('density', `private_vmm_mib_${what}`, vmm, { unit: 'MiB' })
}

function disks(what, paths) {
  const samples = new Samples()
  for (const path of paths) samples.add(exclusive(path))
  print('density', `disk_mib_${what}`, samples, { unit: 'MiB' })
}

printMachine('density')
await whenReady()
const sandboxes = []
for (let i = 0; i < n; ++i) sandboxes.push(await Sandbox.create(life))
await sleep(5_000)
tell('idle', sandboxes)
execFileSync('sync', ['-f', `${state}/pool`])
disks('idle', sandboxes.map((sandbox) => `${state}/pool/sandboxes/${sandbox.sandboxId}`))
await Promise.all(sandboxes.map((sandbox) => sandbox.commands.run('python3 -c "print(6*7)"')))
await sleep(2_000)
tell('after_python', sandboxes)
for (const sandbox of sandboxes) { await policy(sandbox, { hotKeepSeconds: 300 }); await sandbox.pause() }
tell('paused_hot', sandboxes)
for (const sandbox of sandboxes) await sandbox.connect(life)
for (const sandbox of sandboxes) { await policy(sandbox, { hotKeepSeconds: 0 }); await sandbox.pause() }
await Promise.all(sandboxes.map(whenCold))
print('density', 'private_mib_paused_cold', Object.assign(new Samples(), { values: sandboxes.map((sandbox) => (qemuOf(sandbox.sandboxId) ? 1 : 0)) }), { unit: 'MiB' })
execFileSync('sync', ['-f', `${state}/pool`])
disks('snapshot', sandboxes.map((sandbox) => `${state}/pool/snapshots/${sandbox.sandboxId}`))
for (const sandbox of sandboxes) await sandbox.connect(life)
await sleep(5_000)
tell('cold_resumed', sandboxes)
for (const name of ['space-noded', 'space-sandboxd', 'space-control']) {
  const held = new Samples()
  held.add(memoryOf(daemon(name).pid).private)
  print('density', `private_mib_${name}`, held, { unit: 'MiB' })
}
await Promise.all(sandboxes.map((sandbox) => sandbox.kill()))
process.exit(0)
