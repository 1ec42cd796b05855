// What the files of this suite share: the internet (internet.mjs, in its namespace), a capture of the host's uplink, sandboxes
// with a policy, and a probe inside the guest that says in JSON what its kernel told it.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import { createInterface } from 'node:readline'
import { api, Sandbox, sleep, until } from '../e2b/sdk.mjs'

export { api, Sandbox, sleep, until }

export const at = {
  allowed: '45.0.2.10', other: '45.0.2.11', blocked: '45.0.2.20', attacker: '45.0.2.66', resolver: '45.0.1.53', evilResolver: '45.0.1.66',
  allowed6: '2a0d:45::10', blocked6: '2a0d:45::20', attacker6: '2a0d:45::66',
}
export const zone = {
  'allowed.example.com': { A: [at.allowed], AAAA: [at.allowed6] },
  'other.example.com': { A: [at.other] },
  'blocked.example.net': { A: [at.blocked], AAAA: [at.blocked6] },
  'attacker.example.org': { A: [at.attacker], AAAA: [at.attacker6] },
  'six.example.com': { AAAA: [at.allowed6] },
  '*.wild.example.com': { A: [at.allowed] },
  'wild.example.com': { A: [at.allowed] },
  '*.attacker.example.org': { A: [at.attacker], TXT: ['stolen'] },
}
export const names = ['*.example.com', '*.example.net', '*.example.org', '*.wild.example.com']

// One a file: `const world = await World.open()` in before, `await world.close()` in after.
export class World {
  static async open(more = {}, { tools = false } = {}) {
    const world = new World()
    world.waiting = new Map()
    world.turn = 0
    world.process = spawn('nsenter', [`--net=/proc/${process.env.INTERNET}/ns/net`, process.execPath, new URL('internet.mjs', import.meta.url).pathname],
      { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    world.process.on('message', ({ id, answer, error }) => {
      const { resolve, reject } = world.waiting.get(id)
      world.waiting.delete(id)
      if (error) reject(new Error(error)); else resolve(answer)
    })
    world.zone = { ...zone, ...more }
    world.ca = (await world.ask('start', { zone: world.zone, names, tools })).ca
    world.capture = await Capture.start('up0')
    return world
  }
  ask(what, more = {}) {
    const id = ++this.turn
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject })
      this.process.send({ id, ask: what, ...more })
    })
  }
  seen() { return this.ask('seen') }
  setZone(more) { this.zone = { ...this.zone, ...more }; return this.ask('zone', { zone: this.zone }) }
  async forget() { await this.ask('forget'); this.capture.packets.length = 0 }
  // What left the host towards `address`: none, and the capture is shown to see one that we send ourselves.
  async nothingLeftFor(address) {
    await this.capture.seesOurOwn()
    assert.deepEqual(this.capture.packets.filter((packet) => packet.target === address), [])
  }
  async close() {
    this.capture?.stop()
    this.process.disconnect()
    await new Promise((resolve) => this.process.once('exit', resolve))
  }
}

export class Capture {
  static async start(device) {
    const capture = new Capture()
    capture.packets = []
    capture.process = spawn('python3', [new URL('capture.py', import.meta.url).pathname, device], { stdio: ['pipe', 'pipe', 'inherit'] })
    await new Promise((resolve, reject) => {
      capture.process.once('exit', () => reject(new Error('the capture ended')))
      createInterface({ input: capture.process.stdout }).on('line', (line) => {
        const packet = JSON.parse(line)
        if (packet.ready) resolve(); else capture.packets.push(packet)
      })
    })
    return capture
  }
  // The positive control of every absence: a datagram of our own, sent after what is judged, is seen.
  async seesOurOwn() {
    const port = 20_000 + Math.floor(Math.random() * 20_000)
    const { createSocket } = await import('node:dgram')
    const socket = createSocket('udp4')
    await new Promise((resolve, reject) => socket.send('canary', port, at.resolver, (error) => (error ? reject(error) : resolve())))
    socket.close()
    await until(() => this.packets.some((packet) => packet.targetPort === port && packet.target === at.resolver), 'the capture sees a packet of our own')
  }
  stop() { this.process.stdin.end() }
}

export const setPolicy = async (sandbox, policy) => {
  const answer = await api('PUT', `/v1/sandboxes/${sandbox.sandboxId}/egress`, policy)
  const text = await answer.text()
  assert.equal(answer.status, 200, text)
  return JSON.parse(text)
}
export const egress = async (sandbox) => (await api('GET', `/v1/sandboxes/${sandbox.sandboxId}/egress`)).json()
export const egressLog = async (sandbox, after = 0) => (await (await api('GET', `/v1/sandboxes/${sandbox.sandboxId}/egress/log?after=${after}&limit=1000`)).json()).entries
// Waits for an entry of the log that has these members.
export async function logged(sandbox, wanted) {
  let entries
  await until(async () => {
    entries = await egressLog(sandbox)
    return entries.some((entry) => Object.entries(wanted).every(([key, value]) => entry[key] === value))
  }, `the log says ${JSON.stringify(wanted)}`, 20_000).catch((error) => { throw new Error(`${error.message}; it says ${JSON.stringify(entries?.slice(-10))}`) })
}

export const restricted = (...allow) => ({ mode: 'restricted', allow: allow.map((entry) => (typeof entry === 'string' ? (/^[\d.:a-f/]+$/.test(entry) ? { cidr: entry } : { host: entry }) : entry)) })

const probeSource = fs.readFileSync(new URL('probe.py', import.meta.url))

// A sandbox with the probe in it. `probe('tcp', …)` runs as root and answers what probe.py prints.
export class Guest {
  static async create(policy, options = {}) {
    const guest = new Guest()
    guest.sandbox = await Sandbox.create({ timeoutMs: 1_800_000, ...options })
    guest.sandboxId = guest.sandbox.sandboxId
    await guest.sandbox.files.write('/root/probe.py', probeSource.toString(), { user: 'root' })
    if (policy) await setPolicy(guest, policy)
    return guest
  }
  async probe(...words) {
    const quoted = words.map((word) => `'${String(word).replaceAll("'", "'\\''")}'`).join(' ')
    const { stdout } = await this.sandbox.commands.run(`python3 /root/probe.py ${quoted}`, { user: 'root', timeoutMs: 120_000 })
    return JSON.parse(stdout)
  }
  async run(command, options = {}) {
    return this.sandbox.commands.run(command, { user: 'root', timeoutMs: 120_000, ...options }).catch((error) => {
      if (error.exitCode === undefined) throw error
      return error
    })
  }
  kill() { return this.sandbox.kill() }
}
