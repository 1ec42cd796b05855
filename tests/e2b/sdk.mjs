// What every file of this suite shares: the SDK under test (its package name comes from SPACE_SDK), the deployment
// (SPACE_API_URL, SPACE_API_KEY) and a few helpers. The SDK itself is unmodified and pointed at SPACE by its own
// environment variables, exactly as a user would do it.
import { createRequire } from 'node:module'
import net from 'node:net'

const require = createRequire(import.meta.url)
export const sdkName = process.env.SPACE_SDK ?? 'e2b-2.51.0'
// The daemon alone, on localhost:49983, without a VM, an API or a token: the SDK's own debug mode.
export const daemonOnly = process.env.SPACE_DAEMON_ONLY === '1'
export const apiUrl = daemonOnly ? 'http://localhost:49983' : process.env.SPACE_API_URL
export const apiKey = process.env.SPACE_API_KEY
if (daemonOnly) {
  process.env.E2B_DEBUG = 'true'
} else {
  if (!apiUrl || !apiKey) throw new Error('SPACE_API_URL and SPACE_API_KEY must name a running SPACE (tests/e2b/run sets them)')
  process.env.E2B_API_URL = apiUrl
  process.env.E2B_SANDBOX_URL = apiUrl
  process.env.E2B_API_KEY = apiKey
}

export const sdk = require(sdkName)
export const { Sandbox, CommandExitError, TimeoutError } = sdk
export const newest = sdkName === 'e2b-2.51.0'

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

// Repeats `probe` until it is true; the bound is a safety net, not an assertion about speed.
export async function until(probe, what, limitMs = 60_000) {
  const end = Date.now() + limitMs
  while (!(await probe())) {
    if (Date.now() > end) throw new Error(`never happened: ${what}`)
    await sleep(50)
  }
}

export async function failure(promise) {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('expected a failure, got success')
}

export function api(method, path, body, headers = {}) {
  return fetch(apiUrl + path, {
    method,
    headers: { 'X-API-Key': apiKey, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
    body: body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body),
  })
}

// The id and token that the data plane wants, for requests made by hand.
export async function dataPlaneHeaders(sandbox, port = 49983) {
  if (daemonOnly) return {}
  const answer = await (await api('POST', `/sandboxes/${sandbox.sandboxId}/connect`, { timeout: 1 })).json()
  return { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': String(port), 'X-Access-Token': answer.envdAccessToken }
}

// One TCP connection to the API edge, spoken to byte by byte. `responses(n)` resolves with n parsed responses
// ({status, body}); only fixed-length and chunked bodies, which is all the edge sends here.
export function rawConnection() {
  const { hostname, port } = new URL(apiUrl)
  const socket = net.connect(Number(port), hostname)
  let data = Buffer.alloc(0)
  let closed = false
  socket.on('data', (chunk) => (data = Buffer.concat([data, chunk])))
  socket.on('close', () => (closed = true))
  socket.on('error', () => (closed = true))
  const take = () => {
    const end = data.indexOf('\r\n\r\n')
    if (end < 0) return undefined
    const [statusLine, ...lines] = data.subarray(0, end).toString('latin1').split('\r\n')
    const fields = Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]))
    const status = Number(statusLine.split(' ')[1])
    let at = end + 4
    let body = Buffer.alloc(0)
    if (fields['transfer-encoding'] === 'chunked') {
      for (;;) {
        const lineEnd = data.indexOf('\r\n', at)
        if (lineEnd < 0) return undefined
        const size = parseInt(data.subarray(at, lineEnd).toString('latin1'), 16)
        if (data.length < lineEnd + 2 + size + 2) return undefined
        body = Buffer.concat([body, data.subarray(lineEnd + 2, lineEnd + 2 + size)])
        at = lineEnd + 2 + size + 2
        if (size === 0) break
      }
    } else {
      const size = status === 204 || status === 304 ? 0 : Number(fields['content-length'] ?? 0)
      if (data.length < at + size) return undefined
      body = data.subarray(at, at + size)
      at += size
    }
    data = data.subarray(at)
    return { status, fields, body: body.toString('utf8') }
  }
  return {
    socket,
    closed: () => closed,
    write: (text) => socket.write(text),
    async responses(count) {
      const got = []
      await until(() => {
        for (let one = take(); one && got.length < count; one = got.length < count ? take() : undefined) got.push(one)
        return got.length >= count || closed
      }, `${count} responses on one connection`)
      return got
    },
    end: () => socket.destroy(),
  }
}

export function rawRequest(method, path, headers = {}, body = '') {
  const fields = { Host: '127.0.0.1', ...headers, ...(body || method === 'POST' ? { 'Content-Length': Buffer.byteLength(body) } : {}) }
  return `${method} ${path} HTTP/1.1\r\n${Object.entries(fields).map(([k, v]) => `${k}: ${v}\r\n`).join('')}\r\n${body}`
}
