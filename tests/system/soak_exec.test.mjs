// Many commands, many clients, much data, and clocks that jump. One machine; the terminal waits its 60 s beside the rest.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import { after, before, test } from 'node:test'
import { collect, EventStream, program, reach, request, run, shell, unary } from '../e2b/rpc.mjs'
import { failure, Sandbox, sleep, TimeoutError, until } from '../e2b/sdk.mjs'
import { residentMib, run as runFolder, space, state } from './machine.mjs'

const long = process.env.SPACE_LONG === '1'
const residentMaxMib = 64
const hangs = Symbol('hangs')

let sandbox, to, terminal, ended
let screen = ''
before(async () => {
  sandbox = await Sandbox.create({ timeoutMs: 3_600_000 })
  to = await reach(sandbox, { connections: 220 })
  terminal = await sandbox.pty.create({ cols: 80, rows: 24, timeoutMs: 0, onData: () => {} })
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('export KEPT=here; cd /usr\n'))
  await terminal.disconnect()
  ended = await run(to, program('/bin/true'))
  terminal.left = Date.now()
})
after(async () => { to?.close(); await sandbox?.kill() })

// A command that does not end at all is what these tests look for; nothing is asserted on how long one takes.
const bounded = (promise, limitMs = 120_000) => {
  let timer
  return Promise.race([promise, new Promise((resolve) => { timer = setTimeout(resolve, limitMs, hangs) })]).finally(() => clearTimeout(timer))
}

async function guestResidentMib() {
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(await sandbox.files.read('/proc/1/status', { user: 'root' }))[1]) / 1024)
}
const resident = async () => ({ ...residentMib(), 'space-daemon': await guestResidentMib() })
function printResident(what, figures) {
  console.log(`# resident MiB ${what}: ${Object.entries(figures).map(([name, mib]) => `${name} ${mib}`).join(', ')}`)
}
function assertBounded(figures) {
  for (const [name, mib] of Object.entries(figures)) assert.ok(mib > 0 && mib <= residentMaxMib, `${name} holds ${mib} MiB`)
}

test('10,000 short commands, none hangs, each says its own code', async () => {
  const before = await resident()
  const total = 10_000
  let next = 0, throughSdk = 0
  const worker = async () => {
    for (let i = next++; i < total; i = next++) {
      if (i % 250 === 0) {
        const result = await bounded(sandbox.commands.run(`echo ${i}`))
        assert.equal(result.stdout, `${i}\n`)
        throughSdk += 1
        continue
      }
      const message = i % 10 ? program('/bin/true') : shell(`exit ${i % 256}`)
      const answer = await bounded(run(to, message))
      assert.notEqual(answer, hangs, `command ${i} hangs`)
      assert.deepEqual([answer.ends.length, answer.ends[0].exitCode ?? 0, answer.end], [1, i % 10 ? 0 : i % 256, {}], `command ${i}`)
    }
  }
  await Promise.all(Array.from({ length: 12 }, worker))
  assert.equal(throughSdk, 40)
  assert.deepEqual((await unary(to, 'List', {})).body.processes.map((p) => p.pid), [terminal.pid])
  const after = await resident()
  printResident('before 10,000 commands', before)
  printResident('after 10,000 commands', after)
  assertBounded(after)
})

test('200 commands in parallel: all run at once, each gets its own output', async () => {
  const gate = '/tmp/gate'
  const answers = Array.from({ length: 200 }, (_, i) => bounded(run(to, shell(`while [ ! -e ${gate} ]; do sleep 1; done; echo ${i}; exit ${i}`))))
  await until(async () => (await unary(to, 'List', {})).body.processes.length === 201, 'all 200 run', 120_000)
  await sandbox.files.write(gate, '')
  for (const [i, answer] of (await Promise.all(answers)).entries()) assert.deepEqual([answer.stdout, answer.ends[0].exitCode], [`${i}\n`, i])
})

test('clients that disappear: their commands live on, their places are free', async () => {
  const pids = new Set()
  for (let round = 0; round < 3; round += 1) {
    const lonely = await Promise.all(Array.from({ length: 100 }, () => EventStream.open({ ...to, agent: undefined }, 'Start', program('/bin/sleep', '640'))))
    await Promise.all(lonely.map(async (stream) => {
      for await (const event of stream.events()) { pids.add(event.start.pid); break }  // leaving the loop breaks the connection
    }))
    // And some in the middle of what they say.
    for (let i = 0; i < 50; i += 1) {
      const half = http.request({ hostname: to.hostname, port: to.port, method: 'POST', path: i % 2 ? '/process.Process/Start' : '/files?path=/tmp/half', headers: { ...to.fields, 'Content-Type': i % 2 ? 'application/connect+json' : 'application/octet-stream', 'Content-Length': 1000 } })
      half.on('error', () => {})
      half.write('x'.repeat(10), () => half.destroy())
    }
    const listed = (await unary(to, 'List', {})).body.processes.map((p) => p.pid)
    assert.ok([...pids].every((pid) => listed.includes(pid)))
  }
  assert.equal(pids.size, 300)
  // More streams than a machine has places at once, were those of the lost clients not free again.
  for (const answer of await Promise.all(Array.from({ length: 200 }, () => bounded(run(to, program('/bin/true')))))) assert.deepEqual(answer.end, {})
  await Promise.all([...pids].map((pid) => unary(to, 'SendSignal', { process: { pid }, signal: 'SIGNAL_SIGKILL' })))
  await until(async () => (await unary(to, 'List', {})).body.processes.length === 1, 'all are gone')
})

test("steps of the guest's clock move no timeout and end no command", async () => {
  const step = (by) => sandbox.commands.run(`date -s '${by}'`, { user: 'root' })
  const patient = bounded(run(to, shell('sleep 6; echo patient'), { 'Connect-Timeout-Ms': '3600000' }))
  await step('+400 days')
  assert.equal((await sandbox.commands.run('echo later')).stdout, 'later\n')
  const doomed = bounded(failure(sandbox.commands.run('sleep 641', { timeoutMs: 2_500 })))
  await step('-800 days')
  assert.equal((await sandbox.commands.run('sleep 1; echo earlier')).stdout, 'earlier\n')
  assert.equal((await patient).stdout, 'patient\n')
  assert.ok(await doomed instanceof TimeoutError)
  await sandbox.files.write('/tmp/then', 'x')
  assert.equal(await sandbox.files.read('/tmp/then'), 'x')
  await step(new Date().toISOString())
})

test('60 s after its client was lost a terminal is found as it was; an ended command is forgotten', async () => {
  await sleep(Math.max(0, terminal.left + 60_000 - Date.now()))
  const decoder = new TextDecoder()
  const back = await sandbox.pty.connect(terminal.pid, { timeoutMs: 0, onData: (data) => { screen += decoder.decode(data, { stream: true }) } })
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('echo "[$KEPT:$PWD]"; stty size\n'))
  await until(() => screen.includes('[here:/usr]') && screen.includes('24 80'), `the terminal in: ${screen}`)
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('exit 0\n'))
  assert.equal((await back.wait()).exitCode, 0)
  const late = await collect(await EventStream.open(to, 'Connect', { process: { pid: ended.pid } }))
  assert.equal(late.end.error.code, 'not_found')
})

// Bytes of no file: the answer's sum tells whether all came, in order.
async function upload(target, path, mib) {
  const piece = Buffer.alloc(1 << 20)
  let written = 0
  const answer = await new Promise((resolve, reject) => {
    const sent = http.request({ hostname: target.hostname, port: target.port, method: 'POST', path: `/files?path=${path}`, headers: { ...target.fields, 'Content-Type': 'application/octet-stream' } }, resolve)
    sent.on('error', reject)
    const more = () => {
      while (written < mib) {
        piece.fill(written++ & 255)
        if (!sent.write(Buffer.from(piece))) return sent.once('drain', more)
      }
      sent.end()
    }
    more()
  })
  answer.resume()
  return answer.statusCode
}
async function download(target, path) {
  const answer = await request({ ...target, agent: undefined }, 'GET', `/files?path=${path}`)
  let bytes = 0
  for await (const part of answer) {
    for (let at = 0; at < part.length;) {
      const end = Math.min(part.length, at + (1 << 20) - ((bytes + at) % (1 << 20)))
      const expected = Math.floor((bytes + at) / (1 << 20)) & 255
      if (part[at] !== expected || part[end - 1] !== expected) throw new Error(`byte ${bytes + at} is not ${expected}`)
      at = end
    }
    bytes += part.length
  }
  return bytes
}

// 4 GiB do not fit on the disk of `base`: the long run builds a template with more room.
function roomyTemplate() {
  const recipe = fs.mkdtempSync('/tmp/space-recipe-')
  execFileSync('cp', ['-a', `${new URL('../../images/base', import.meta.url).pathname}/.`, recipe])
  const conf = fs.readFileSync(`${recipe}/template.conf`, 'utf8').replace(/^name=.*/m, 'name=roomy').replace(/^disk_mib=.*/m, 'disk_mib=6144')
  fs.writeFileSync(`${recipe}/template.conf`, conf)
  space('template', 'build', 'roomy', '--recipe', recipe, '--state', state, '--run', runFolder)
  fs.rmSync(recipe, { recursive: true })
  return 'roomy'
}

test(`${long ? 4 : 1} GiB up and down in constant memory of every daemon`, async () => {
  const mib = long ? 4096 : 1024
  const other = long ? await Sandbox.create(roomyTemplate(), { timeoutMs: 3_600_000 }) : sandbox
  const target = await reach(other)
  const most = await resident()
  printResident('before', most)
  const transfer = (async () => {
    assert.equal(await upload(target, '/tmp/big', mib), 200)
    assert.equal(await download(target, '/tmp/big'), mib * (1 << 20))
  })()
  let done = false
  transfer.finally(() => { done = true }).catch(() => {})
  while (!done) {
    for (const [name, now] of Object.entries(residentMib())) most[name] = Math.max(most[name], now)
    await sleep(250)
  }
  await transfer
  const status = await other.files.read('/proc/1/status', { user: 'root' })
  most['space-daemon'] = Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)[1]) / 1024)
  printResident(`at most, ${mib} MiB up and down`, most)
  assertBounded(most)
  await other.commands.run('rm /tmp/big')
  if (long) await other.kill()
})
