// The machine as the kernel shows it, for tests that kill things and count what is left. Runs as root beside the
// instance that tests/system/run started (SPACE_STATE, SPACE_RUN, SPACE_BUILD, SPACE_PORT).
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'

export const state = process.env.SPACE_STATE
export const run = process.env.SPACE_RUN
const build = process.env.SPACE_BUILD

const read = (path) => { try { return fs.readFileSync(path, 'utf8') } catch { return '' } }
const list = (path) => { try { return fs.readdirSync(path) } catch { return [] } }

export function space(...args) {
  return execFileSync(`${build}/space`, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}
export const up = () => space('up', '-d', '--state', state, '--run', run, '--listen', `127.0.0.1:${process.env.SPACE_PORT}`)

export function processes() {
  return list('/proc').filter((name) => /^\d+$/.test(name)).map((pid) => {
    const status = read(`/proc/${pid}/status`)
    return {
      pid: Number(pid),
      cmdline: read(`/proc/${pid}/cmdline`).split('\0').filter(Boolean),
      uid: Number(/^Uid:\s+(\d+)/m.exec(status)?.[1] ?? -1),
      state: /^State:\s+(\S)/m.exec(status)?.[1] ?? '?',
      name: /^Name:\s+(.*)/m.exec(status)?.[1] ?? '',
    }
  })
}

// A daemon of this instance: by its name (a VM's supervisor, forked from space-noded, has one of its own) and --run flag.
export function daemon(name) {
  return processes().find((p) => p.name === name && p.cmdline.includes(run) && p.state !== 'Z')
}
export const supervisor = () => Number(read(`${run}/up.lock`).trim())
export const vmUser = (uid) => uid >= 200000 && uid <= 265535
export const virtualMachines = () => processes().filter((p) => vmUser(p.uid) && p.state !== 'Z')

export function qemuOf(sandboxId) {
  const pid = Number(read(`${run}/noded/vm/${sandboxId}/pid`).trim().split(/\s/)[0])
  return processes().find((p) => p.pid === pid)
}

function cgroups() {
  const found = []
  const walk = (path) => {
    for (const name of list(path)) {
      const child = `${path}/${name}`
      if (!fs.lstatSync(child).isDirectory()) continue
      if (/^i[a-z0-9]{19}$/.test(name)) found.push(child)
      else walk(child)
    }
  }
  for (const line of read('/proc/self/mounts').split('\n')) {
    const [, path, type] = line.split(' ')
    if (type === 'cgroup' || type === 'cgroup2') for (const name of list(path)) if (name.startsWith('space')) walk(`${path}/${name}`)
  }
  return found
}

// What must be the same before and after: the table the tests compare and print.
export function leakTable() {
  const all = processes()
  const fds = (name) => { const d = daemon(name); return d ? list(`/proc/${d.pid}/fd`).length : 0 }
  return {
    vmProcesses: all.filter((p) => vmUser(p.uid)).length,
    zombies: all.filter((p) => p.state === 'Z').length,
    instanceProcesses: all.filter((p) => p.cmdline.includes(run)).length,
    vmUids: new Set(all.filter((p) => vmUser(p.uid)).map((p) => p.uid)).size,
    nodedFds: fds('space-noded'),
    sandboxdFds: fds('space-sandboxd'),
    controlFds: fds('space-control'),
    subvolumes: list(`${state}/pool/sandboxes`).length,
    templates: list(`${state}/pool/templates`).length,
    loopDevices: list('/sys/block').filter((name) => read(`/sys/block/${name}/loop/backing_file`).startsWith(state)).length,
    mounts: read('/proc/self/mounts').split('\n').filter((line) => line.includes(state) || line.includes(run)).length,
    cgroups: cgroups().length,
    netns: list(`${run}/noded/netns`).length,
    taps: list('/sys/class/net').filter((name) => name.startsWith('tap')).length,
    vmFolders: list(`${run}/noded/vm`).length,
    sandboxdFolders: list(`${run}/sandboxd/vm`).length,
  }
}

export function printTables(before, after) {
  for (const key of Object.keys(before)) console.log(`# ${key.padEnd(18)} ${String(before[key]).padStart(6)} -> ${String(after[key]).padStart(6)}`)
}
