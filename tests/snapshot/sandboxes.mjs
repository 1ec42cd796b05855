// What the files of this suite share: sandboxes that are paused and come back, programs of ours in the guest, and the pool as
// the kernel shows it. Runs as root beside the instance that tests/snapshot/run started.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { api, Sandbox, until } from '../e2b/sdk.mjs'
import { qemuOf, state } from '../system/machine.mjs'

export const long = process.env.SPACE_LONG === '1'
export const life = { timeoutMs: 1_800_000 }

export async function inFresh(use, options = {}) {
  const sandbox = await Sandbox.create({ ...life, ...options })
  try {
    return await use(sandbox)
  } finally {
    assert.equal(await Sandbox.kill(sandbox.sandboxId, options), true)
  }
}

export async function ok(answer) {
  const text = await answer.text()
  assert.ok(answer.ok, `${answer.status} ${text} (${answer.url})`)
  return text ? JSON.parse(text) : undefined
}

export const stdout = async (sandbox, command, options = {}) => (await sandbox.commands.run(command, { timeoutMs: 120_000, ...options })).stdout
export const checkpoint = async (sandbox) => ok(await api('POST', `/v1/sandboxes/${sandbox.sandboxId}/snapshots`))
export const snapshots = async (sandbox) => (await ok(await api('GET', `/v1/sandboxes/${sandbox.sandboxId}/snapshots`))).snapshots
export const policy = async (sandbox, wanted) => ok(await api('PUT', `/v1/sandboxes/${sandbox.sandboxId}/pause-policy`, wanted))
export const detail = async (sandbox) => ok(await api('GET', `/v1/sandboxes/${sandbox.sandboxId}`))

// Whose memory is in the machine has a QEMU. Hot: stopped and there; cold: a checkpoint and no process.
export const hasMemory = (sandbox) => qemuOf(sandbox.sandboxId) !== undefined
export const whenCold = (sandbox) => until(() => !hasMemory(sandbox), 'its memory is let go', 60_000)

export async function pauseCold(sandbox) {
  await policy(sandbox, { hotKeepSeconds: 0 })
  assert.equal(await sandbox.pause(), true)
  await whenCold(sandbox)
}
// As a user does it: the same object goes on working.
export const resume = (sandbox) => sandbox.connect({ timeoutMs: life.timeoutMs })

export async function upload(sandbox, name, path = `/tmp/${name}`) {
  const bytes = fs.readFileSync(`${process.env.SPACE_GUEST_PROGRAMS}/${name}`)
  await sandbox.files.write(path, bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
  await sandbox.commands.run(`chmod +x ${path}`)
  return path
}

// A program in the background, asked one line at a time.
export class Asked {
  static async start(sandbox, command, options = {}) {
    const asked = new Asked()
    Object.assign(asked, { sandbox, text: '', read: 0 })
    const handle = await sandbox.commands.run(command, { background: true, stdin: true, timeoutMs: 0, ...options })
    asked.pid = handle.pid
    asked.#listen(handle)
    return asked
  }
  #listen(handle) {
    this.handle = handle
    handle.wait().catch(() => {})
  }
  // After a pause broke the stream.
  async again() {
    this.read = 0
    this.#listen(await this.sandbox.commands.connect(this.pid, { timeoutMs: 0 }))
  }
  async line(what) {
    let line
    await until(() => {
      const rest = this.handle.stdout.slice(this.read)
      if (!rest.includes('\n')) return false
      line = rest.slice(0, rest.indexOf('\n'))
      return true
    }, `an answer to ${what}`, 120_000)
    this.read += line.length + 1
    return line
  }
  async ask(text) {
    await this.sandbox.commands.sendStdin(this.pid, `${text}\n`)
    return this.line(text)
  }
}

const snapshotFolder = (id, number) => `${state}/pool/snapshots/${id}/${number}`
export const fileOf = (sandbox, number, name) => `${snapshotFolder(sandbox.sandboxId, number)}/${name}`

// Every byte of the guest's memory, read from its stopped QEMU.
export function readMemory(sandbox) {
  const { pid } = qemuOf(sandbox.sandboxId)
  const ranges = fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n').filter((line) => / \/memory(\s|$)/.test(line)).map((line) => {
    const [range, , offset] = line.split(/\s+/)
    const [begin, end] = range.split('-').map((hex) => Number.parseInt(hex, 16))
    return { begin, end, offset: Number.parseInt(offset, 16) }
  })
  assert.ok(ranges.length > 0, `the memory of QEMU ${pid} is mapped`)
  const memory = Buffer.alloc(Math.max(...ranges.map((r) => r.offset + r.end - r.begin)))
  const fd = fs.openSync(`/proc/${pid}/mem`, 'r')
  try {
    for (const { begin, end, offset } of ranges)
      for (let at = 0; at < end - begin; at += 1 << 20) {
        const size = Math.min(1 << 20, end - begin - at)
        assert.equal(fs.readSync(fd, memory, offset + at, size, begin + at), size)
      }
  } finally {
    fs.closeSync(fd)
  }
  return memory
}

const page = 4096

// Pages of the file that are not those of `memory`.
export function differentPages(memory, path) {
  const fd = fs.openSync(path, 'r')
  const piece = Buffer.alloc(1 << 20)
  const different = []
  try {
    assert.equal(fs.fstatSync(fd).size, memory.length)
    for (let at = 0; at < memory.length; at += piece.length) {
      fs.readSync(fd, piece, 0, piece.length, at)
      if (piece.equals(memory.subarray(at, at + piece.length))) continue
      for (let k = 0; k < piece.length; k += page) if (!piece.subarray(k, k + page).equals(memory.subarray(at + k, at + k + page))) different.push((at + k) / page)
    }
  } finally {
    fs.closeSync(fd)
  }
  return different
}

// Where `bytes` stand at the begin of a page of a file; -1: nowhere.
export function findPage(path, bytes) {
  const fd = fs.openSync(path, 'r')
  const piece = Buffer.alloc(4 << 20)
  try {
    for (let at = 0, count; (count = fs.readSync(fd, piece, 0, piece.length, at)) > 0; at += count)
      for (let k = 0; k < count; k += page) if (piece.compare(bytes, 0, bytes.length, k, k + bytes.length) === 0) return at + k
    return -1
  } finally {
    fs.closeSync(fd)
  }
}

export function readAt(path, at, size) {
  const fd = fs.openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(size)
    fs.readSync(fd, bytes, 0, size, at)
    return bytes
  } finally {
    fs.closeSync(fd)
  }
}
