// What the benchmarks of snapshots share: the unmodified SDK over HTTP, the pool, the machine as the kernel shows it.
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import { api, apiUrl, Sandbox, sleep } from '../../tests/e2b/sdk.mjs'
import { envelope } from '../../tests/e2b/rpc.mjs'
import { qemuOf, state } from '../../tests/system/machine.mjs'

export { Sandbox, sleep }
export const rounds = (byDefault) => Number(process.argv[2] ?? byDefault)
export const life = { timeoutMs: 3_000_000 }
export const image = fs.readdirSync(`${state}/images`).map((name) => `${state}/images/${name}`).find((path) => fs.existsSync(`${path}/manifest.json`))

export async function call(method, path, body) {
  const answer = await api(method, path, body)
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return text ? JSON.parse(text) : undefined
}

export async function until(probe, what, limitMs = 120_000) {
  for (const end = Date.now() + limitMs; !(await probe()); await sleep(20)) if (Date.now() > end) throw new Error(`never happened: ${what}`)
}

export const pool = async () => (await call('GET', '/v1/pools')).pools.find((one) => one.template === 'base')
// Until the template has a checkpoint: before, every create is a boot.
export const whenReady = () => until(async () => (await pool())?.checkpoint === true, 'a checkpoint of the template')
export const setPool = (target) => call('PUT', '/v1/pools/base', { target })
export const whenParked = (count) => until(async () => (await pool())?.parked === count, `${count} parked VMs`)
export const policy = (sandbox, wanted) => call('PUT', `/v1/sandboxes/${sandbox.sandboxId}/pause-policy`, wanted)
export const checkpoint = (sandbox) => call('POST', `/v1/sandboxes/${sandbox.sandboxId}/snapshots`)
const route = (sandbox, rest) => `/v1/sandboxes/${sandbox.sandboxId}${rest}`
export const diskSnapshot = (sandbox) => call('POST', route(sandbox, '/snapshots'), { kind: 'disk' })
export const snapshots = async (sandbox, query = '') => (await call('GET', route(sandbox, `/snapshots${query}`))).snapshots
export const removeSnapshot = (sandbox, number) => call('DELETE', route(sandbox, `/snapshots/${number}`))
export const rollback = (sandbox, wish) => call('POST', route(sandbox, '/rollback'), wish)
export const noSchedule = (sandbox) => call('PUT', route(sandbox, '/schedule'), { schedule: 'off' })
// Each child that began, as execTrue and kill take it, and the errors of the others.
export async function fork(sandbox, count) {
  const entries = await call('POST', route(sandbox, '/fork'), { count, timeout: life.timeoutMs / 1000 })
  const children = entries.filter((entry) => entry.sandbox).map(({ sandbox: child }) => ({ sandboxId: child.sandboxID, envdAccessToken: child.envdAccessToken }))
  return { children, errors: entries.filter((entry) => entry.error).map((entry) => entry.error) }
}
export const whenCold = (sandbox) => until(() => qemuOf(sandbox.sandboxId) === undefined, 'its memory is let go')
export const killAll = (sandboxes) => Promise.all(sandboxes.map((sandbox) => Sandbox.kill(sandbox.sandboxId)))

// The checkpoint new sandboxes start from: that of a builder which is no sandbox any more.
export function templateSnapshot() {
  const folder = `${state}/pool/snapshots`
  const digest = image.split('/').at(-1)
  for (const id of fs.readdirSync(folder))
    for (const number of fs.readdirSync(`${folder}/${id}`)) {
      const path = `${folder}/${id}/${number}`
      if (!fs.existsSync(`${path}/manifest.json`)) continue
      const manifest = JSON.parse(fs.readFileSync(`${path}/manifest.json`, 'utf8'))
      if (manifest.template === digest) return path
    }
  throw new Error('there is no checkpoint of the template')
}
export const newestSnapshot = (sandbox) => {
  const folder = `${state}/pool/snapshots/${sandbox.sandboxId}`
  return `${folder}/${Math.max(...fs.readdirSync(folder).map(Number))}`
}

// /bin/true started directly, as the first thing on a kept connection; the SDK itself always goes through `bash -l -c`.
const agent = new http.Agent({ keepAlive: true, maxSockets: 4 })
const { hostname, port } = new URL(apiUrl)
export function execTrue(sandbox) {
  const body = envelope({ process: { cmd: '/bin/true', args: [] }, stdin: false })
  const headers = { 'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1', 'Content-Length': body.length,
    'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': sandbox.envdAccessToken }
  return new Promise((resolve, reject) => {
    const sent = http.request({ hostname, port, agent, method: 'POST', path: '/process.Process/Start', headers }, (answer) => {
      let text = ''
      answer.on('data', (data) => { text += data.toString('latin1') }).on('error', reject)
      answer.on('end', () => (/"exited":\s*true/.test(text) && answer.statusCode === 200 ? resolve() : reject(new Error(`/bin/true: ${answer.statusCode} ${text.slice(-200)}`))))
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

// A program of bench/lib for the guest (static) or for this machine.
export function compile(name) {
  const out = `${process.env.SPACE_BENCH_WORK}/${name}`
  execFileSync('clang-19', ['-O2', '-static', '-pthread', '-Wall', '-Wextra', '-Werror', '-o', out, new URL(`${name}.c`, import.meta.url).pathname])
  return out
}
export async function upload(sandbox, name) {
  const bytes = fs.readFileSync(compile(name))
  await sandbox.files.write(`/tmp/${name}`, bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
  await sandbox.commands.run(`chmod +x /tmp/${name}`)
  return `/tmp/${name}`
}
