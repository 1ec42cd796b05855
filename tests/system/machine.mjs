// The machine as the kernel shows it, for tests that kill things and count what is left. Runs as root beside the
// instance that tests/system/run started (SPACE_STATE, SPACE_RUN, SPACE_BUILD, SPACE_PORT).
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'

export const state = process.env.SPACE_STATE
export const run = process.env.SPACE_RUN
const build = process.env.SPACE_BUILD
const parkedAtRest = Number(process.env.SPACE_WARM_POOL || 0)

const read = (path) => { try { return fs.readFileSync(path, 'utf8') } catch { return '' } }
const list = (path) => { try { return fs.readdirSync(path) } catch { return [] } }

export function space(...args) {
  return execFileSync(`${build}/space`, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}
export const up = () => space('up', '-d', '--state', state, '--run', run, '--listen', `127.0.0.1:${process.env.SPACE_PORT}`,
  '--warm-pool', String(parkedAtRest), ...(process.env.SPACE_WARM_POOL_MAX ? ['--warm-pool-max', process.env.SPACE_WARM_POOL_MAX] : []))

export function processes() {
  return list('/proc').filter((name) => /^\d+$/.test(name)).map((pid) => {
    const status = read(`/proc/${pid}/status`)
    return {
      pid: Number(pid),
      cmdline: read(`/proc/${pid}/cmdline`).split('\0').filter(Boolean),
      uid: Number(/^Uid:\s+(\d+)/m.exec(status)?.[1] ?? -1),
      state: /^State:\s+(\S)/m.exec(status)?.[1] ?? '?',
      parent: Number(/^PPid:\s+(\d+)/m.exec(status)?.[1] ?? 0),
      name: /^Name:\s+(.*)/m.exec(status)?.[1] ?? '',
    }
  })
}

// A daemon of this instance: by its name (a VM's supervisor, forked from space-noded, has one of its own) and --run flag.
// Not a worker of it, which looks the same for a moment and may have the lower number.
export function daemon(name, runFolder = run) {
  const alike = processes().filter((p) => p.name === name && p.cmdline.includes(runFolder) && p.state !== 'Z')
  return alike.find((p) => !alike.some((other) => other.pid === p.parent))
}
export const supervisor = () => Number(read(`${run}/up.lock`).split('\n')[0])
export const vmUser = (uid) => uid >= 200000 && uid <= 265535

export function qemuOf(sandboxId, runFolder = run) {
  const pid = Number(read(`${runFolder}/noded/vm/${sandboxId}/pid`).trim().split(/\s/)[0])
  return processes().find((p) => p.pid === pid)
}

// Control groups of this instance (space/<run directory with + for />/<sandbox>) in every hierarchy.
const instanceOf = (runFolder) => runFolder.slice(1).replaceAll('/', '+')
function cgroups(instance) {
  const mounts = read('/proc/self/mounts').split('\n').map((line) => line.split(' ')).filter(([, , type]) => type === 'cgroup' || type === 'cgroup2')
  return mounts.flatMap(([, path]) => list(`${path}/space/${instance}`).filter((name) => /^i[a-z0-9]{19}$/.test(name)).map((name) => `${path}/space/${instance}/${name}`))
}

// Other instances may run on this machine: a virtual machine is ours when its control group is.
const virtualMachinesOf = (all, runFolder) => all.filter((p) => vmUser(p.uid) && p.state !== 'Z' && read(`/proc/${p.pid}/cgroup`).includes(`/space/${instanceOf(runFolder)}/`))
export const virtualMachines = () => virtualMachinesOf(processes(), run)

// Descriptors of a daemon without the connections its clients keep open.
function descriptors(name, runFolder) {
  const pid = daemon(name, runFolder)?.pid
  const tcp = new Set(read(`/proc/${pid}/net/tcp`).split('\n').map((line) => line.trim().split(/\s+/)).filter((row) => row[3] === '01').map((row) => row[9]))
  return list(`/proc/${pid}/fd`).filter((fd) => {
    try { return !tcp.has(/^socket:\[(\d+)\]/.exec(fs.readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1]) } catch { return false }
  }).length
}

// A tap lives in its sandbox's namespace and as long as its descriptor.
const openTaps = (pid) => list(`/proc/${pid}/fd`).filter((fd) => {
  try { return fs.readlinkSync(`/proc/${pid}/fd/${fd}`) === '/dev/net/tun' } catch { return false }
}).length

// What must be the same before and after: the table the tests compare and print. Of another instance: its folders,
// and a process in its mount namespace.
export function leakTable({ state: stateFolder, run: runFolder, pid } = { state, run, pid: 'self' }) {
  const root = `/proc/${pid}/root`
  const all = processes()
  const machines = virtualMachinesOf(all, runFolder)
  const slots = list(`${root}${runFolder}/noded/netns`)
  const ours = new Set(all.filter((p) => p.cmdline.includes(runFolder)).map((p) => p.pid))
  return {
    vmProcesses: machines.length,
    zombies: all.filter((p) => p.state === 'Z' && ours.has(p.parent)).length,
    instanceProcesses: all.filter((p) => p.cmdline.includes(runFolder)).length,
    vmUids: new Set(machines.map((p) => p.uid)).size,
    nodedFds: descriptors('space-noded', runFolder),
    sandboxdFds: descriptors('space-sandboxd', runFolder),
    controlFds: descriptors('space-control', runFolder),
    netdFds: descriptors('space-netd', runFolder),
    subvolumes: list(`${root}${stateFolder}/pool/sandboxes`).length,
    templates: list(`${root}${stateFolder}/pool/templates`).length,
    snapshots: list(`${root}${stateFolder}/pool/snapshots`).reduce((sum, id) => sum + list(`${root}${stateFolder}/pool/snapshots/${id}`).length, 0),
    bundles: list(`${root}${stateFolder}/vmm`).length,
    loopDevices: list('/sys/block').filter((name) => read(`/sys/block/${name}/loop/backing_file`).startsWith(stateFolder)).length,
    mounts: read(`/proc/${pid}/mounts`).split('\n').filter((line) => line.includes(stateFolder) || line.includes(runFolder)).length,
    cgroups: cgroups(instanceOf(runFolder)).length,
    netns: slots.filter((name) => !name.startsWith('.')).length,
    spareSlots: slots.filter((name) => name.startsWith('.')).length, // made ahead: always as many, once nothing moves
    taps: machines.reduce((sum, p) => sum + openTaps(p.pid), 0) + list('/sys/class/net').filter((name) => name.startsWith('tap')).length,
    vmFolders: list(`${root}${runFolder}/noded/vm`).length,
    sandboxdFolders: list(`${root}${runFolder}/sandboxd/vm`).length,
  }
}

// The daemons' memory, in MiB, by name.
export function residentMib() {
  return Object.fromEntries(['space-noded', 'space-netd', 'space-sandboxd', 'space-control'].map((name) =>
    [name, Math.round(Number(/^VmRSS:\s+(\d+)/m.exec(read(`/proc/${daemon(name)?.pid}/status`))?.[1] ?? 0) / 1024)]))
}

const pools = async ({ url = process.env.SPACE_API_URL, key = process.env.SPACE_API_KEY } = {}) =>
  (await (await fetch(`${url}/v1/pools`, { headers: { 'X-API-Key': key } })).json()).pools

// A pool that still fills, or whose template's checkpoint is being made, would be in a table as what it is not: the suite's own
// instance parks exactly SPACE_WARM_POOL, another one nothing.
async function poolRests(of) {
  const all = await pools(of).catch(() => undefined)
  return all?.every((pool) => pool.filling === 0) && all.reduce((sum, pool) => sum + pool.parked, 0) === (of ? 0 : parkedAtRest)
}

// The table once nothing moves any more: the same at every look for a second, every process that ended reaped, the pool full.
export async function quietTable(of, limitMs = 120_000) {
  const end = Date.now() + limitMs
  let table = leakTable(of)
  for (let same = 0; same < 10; ) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    const now = leakTable(of)
    same = now.zombies === 0 && JSON.stringify(now) === JSON.stringify(table) && await poolRests(of) ? same + 1 : 0
    if (same === 0 && Date.now() > end) throw new Error(`it never rests: ${JSON.stringify(table)} then ${JSON.stringify(now)}; pools ${JSON.stringify(await pools(of).catch(String))}`)
    table = now
  }
  return table
}

// Once the table is again what it was; says what differs if that does not happen.
export async function settled(before, of, limitMs = 60_000) {
  const end = Date.now() + limitMs
  let now = leakTable(of)
  for (; JSON.stringify(now) !== JSON.stringify(before) && Date.now() < end; now = leakTable(of)) await new Promise((resolve) => setTimeout(resolve, 100))
  if (JSON.stringify(now) !== JSON.stringify(before)) console.log(`# pools: ${JSON.stringify(await pools(of).catch(String))}`)
  assert.deepEqual(now, before)
}

export function printTables(before, after) {
  for (const key of Object.keys(before)) console.log(`# ${key.padEnd(18)} ${String(before[key]).padStart(6)} -> ${String(after[key]).padStart(6)}`)
}
