// The Connect protocol by hand: what a client that is not the JavaScript SDK puts on the wire. `to` is what
// `reach` gives: where the daemon is reached and with which fields.
import http from 'node:http'
import { apiUrl, dataPlaneHeaders } from './sdk.mjs'

export async function reach(sandbox, { connections = 64 } = {}) {
  const { hostname, port } = new URL(apiUrl)
  const agent = new http.Agent({ keepAlive: true, maxSockets: connections })
  return { hostname, port, agent, fields: await dataPlaneHeaders(sandbox), close: () => agent.destroy() }
}

export function envelope(message, flags = 0) {
  const payload = Buffer.from(typeof message === 'string' ? message : JSON.stringify(message))
  const head = Buffer.alloc(5)
  head[0] = flags
  head.writeUInt32BE(payload.length, 1)
  return Buffer.concat([head, payload])
}

// The answer's head has come; its body is read by the caller. `pieces`: the body, written one after the other.
export function request(to, method, path, fields = {}, pieces = []) {
  const length = pieces.length > 1 ? {} : { 'Content-Length': pieces[0]?.length ?? 0 }
  return new Promise((resolve, reject) => {
    const sent = http.request({ hostname: to.hostname, port: to.port, agent: to.agent, method, path, headers: { ...length, ...to.fields, ...fields } }, resolve)
    sent.on('error', reject)
    ;(async () => {
      for (const piece of pieces.slice(0, -1)) await new Promise((done) => sent.write(piece, done))
      sent.end(pieces.at(-1))
    })()
  })
}

async function read(answer) {
  const parts = []
  for await (const part of answer) parts.push(part)
  return Buffer.concat(parts)
}

// {status, fields, body}: body is the parsed JSON, if it is JSON.
export async function call(to, method, path, fields, ...pieces) {
  const answer = await request(to, method, path, fields, pieces)
  const text = (await read(answer)).toString()
  const json = /^application\/json/.test(answer.headers['content-type'] ?? '')
  return { status: answer.statusCode, fields: answer.headers, body: json ? JSON.parse(text) : text }
}
export const unary = (to, method, message, fields = {}) =>
  call(to, 'POST', `/${method.includes('/') ? method : `process.Process/${method}`}`,
    { 'Content-Type': 'application/json', 'Connect-Protocol-Version': '1', ...fields }, Buffer.from(JSON.stringify(message)))

// One answer stream, event by event: `for await (const event of stream.events())`; after the end `stream.end` is the
// end-of-stream message, undefined if the stream broke off.
export class EventStream {
  static async open(to, method, message, fields = {}) {
    const stream = new EventStream()
    const body = Buffer.isBuffer(message) ? message : envelope(message)
    stream.answer = await request(to, 'POST', `/process.Process/${method}`,
      { 'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1', ...fields }, [body])
    stream.answer.on('error', () => {})
    return stream
  }
  async * events() {
    let data = Buffer.alloc(0)
    for await (const part of this.answer) {
      data = data.length ? Buffer.concat([data, part]) : part
      while (data.length >= 5 && data.length >= 5 + data.readUInt32BE(1)) {
        const length = data.readUInt32BE(1)
        const message = JSON.parse(data.subarray(5, 5 + length))
        const flags = data[0]
        data = data.subarray(5 + length)
        if (this.end) throw new Error('a message after the end of the stream')
        if (flags === 2) this.end = message
        else if (flags === 0) yield message.event
        else throw new Error(`an envelope with flags ${flags}`)
      }
    }
    if (data.length) throw new Error('the stream ends within a message')
  }
  break() { this.answer.destroy() }
}

const texts = ['stdout', 'stderr', 'pty']

// Reads a stream to its end: {pid, stdout, stderr, pty, kinds, ends, end}.
export async function collect(stream, onEvent = () => {}) {
  const seen = { stdout: '', stderr: '', pty: '', kinds: [], ends: [], longest: 0 }
  const parts = { stdout: [], stderr: [], pty: [] }
  for await (const event of stream.events()) {
    const kind = Object.keys(event)[0]
    if (seen.kinds.at(-1) !== kind) seen.kinds.push(kind)
    if (event.start) seen.pid = event.start.pid
    if (event.end) seen.ends.push(event.end)
    for (const text of texts) {
      if (event.data?.[text] === undefined) continue
      const bytes = Buffer.from(event.data[text], 'base64')
      parts[text].push(bytes)
      seen.longest = Math.max(seen.longest, bytes.length)
    }
    onEvent(event, seen)
  }
  for (const text of texts) seen[text] = Buffer.concat(parts[text]).toString()
  return { ...seen, end: stream.end }
}

export const shell = (command, more = {}) => ({ process: { cmd: '/bin/sh', args: ['-c', command] }, stdin: false, ...more })
export const program = (cmd, ...args) => ({ process: { cmd, args }, stdin: false })
export const run = async (to, message, fields = {}) => collect(await EventStream.open(to, 'Start', message, fields))
