// The internet of the tests: a name server, web servers, plain TCP and UDP listeners on every address of their namespace.
// Started by world.mjs with an IPC channel: {ask, …} in, {answer} out. It remembers who asked it for what.
import { execFileSync } from 'node:child_process'
import dgram from 'node:dgram'
import fs from 'node:fs'
import http from 'node:http'
import http2 from 'node:http2'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { answerQuery } from './dns.mjs'
import { makeMirror } from './mirror.mjs'

const seen = { queries: [], requests: [], connections: [], datagrams: [] }
let zone = {}, mirror

// A CA and a certificate for every name of the zone. The CA's file is handed to guests by the tests.
function makeCertificates(names) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'space-egress-ca.'))
  const openssl = (...words) => execFileSync('openssl', words, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
  openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '30', '-subj', '/CN=Internet of the tests')
  openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', 'key.pem', '-out', 'request.pem', '-subj', '/CN=any')
  fs.writeFileSync(path.join(folder, 'names'), `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}\n`)
  openssl('x509', '-req', '-in', 'request.pem', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '30', '-extfile', 'names', '-out', 'cert.pem')
  const read = (name) => fs.readFileSync(path.join(folder, name), 'utf8')
  const made = { ca: read('ca.pem'), key: read('key.pem'), cert: read('cert.pem') }
  fs.rmSync(folder, { recursive: true })
  return made
}

const plain = (address) => (address ?? '').replace(/^::ffff:(?=\d+\.)/, '')

// GET /mirror/…: mirror.mjs. GET /bytes?n=N: N bytes. POST /count: how many bytes came. /slow: one byte a second. Anything else: what was asked, as JSON.
function serve(request, response) {
  const url = new URL(request.url, 'http://x')
  const entry = { to: plain(request.socket.localAddress), port: request.socket.localPort, method: request.method, url: request.url,
    host: request.headers.host ?? request.headers[':authority'], servername: request.socket.servername, fields: request.rawHeaders ?? [] }
  seen.requests.push(entry)
  if (mirror && url.pathname.startsWith('/mirror/')) return mirror.serve(url.pathname.slice('/mirror/'.length), response)
  if (url.pathname === '/bytes') {
    const piece = Buffer.alloc(1 << 18, 'x')
    let left = Number(url.searchParams.get('n'))
    response.writeHead(200, { 'content-length': left })
    const more = () => {
      while (left > 0) {
        const size = Math.min(left, piece.length)
        left -= size
        if (!response.write(size === piece.length ? piece : piece.subarray(0, size))) return response.once('drain', more)
      }
      response.end()
    }
    return more()
  }
  if (url.pathname === '/count') {
    let count = 0
    request.on('data', (piece) => { count += piece.length })
    return request.on('end', () => response.end(`${count}\n`))
  }
  if (url.pathname === '/slow') {
    response.writeHead(200)
    const timer = setInterval(() => response.write('.'), 1000)
    return response.on('close', () => clearInterval(timer))
  }
  request.resume()
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ to: entry.to, host: entry.host, url: entry.url, method: entry.method }))
}

const listen = (server, port) => new Promise((resolve, reject) => { server.once('error', reject); server.listen(port, '::', resolve) })

// Accepts, remembers, and speaks first where the protocol does.
const banners = { 22: 'SSH-2.0-Internet\r\n', 25: '220 mail\r\n', 3306: 'J\0\0\0\n8.0.0\0' }
function plainServer(port) {
  return net.createServer({ allowHalfOpen: true }, (socket) => {
    const connection = { to: plain(socket.localAddress), port, from: plain(socket.remoteAddress), bytes: 0 }
    seen.connections.push(connection)
    if (banners[port]) socket.write(banners[port])
    socket.on('error', () => {})
    socket.on('data', (piece) => { connection.bytes += piece.length; socket.write(piece) })
    socket.on('end', () => { connection.ended = true; socket.end('bye') })
  })
}
const plainPorts = [7, 22, 25, 853, 3306, 6667, 9001, 9999]

const nameServers = ['45.0.1.53', '45.0.1.66', '8.8.8.8', '1.1.1.1', '2606:4700::1111']
const answer = (message, over, to) => answerQuery(message, zone, (query) => seen.queries.push({ ...query, over, to }))

// A socket an address, so that an answer leaves from where it was asked.
function nameServerAt(address) {
  const udp = dgram.createSocket(address.includes(':') ? 'udp6' : 'udp4')
  udp.on('message', (message, from) => {
    const reply = answer(message, 'udp', address)
    if (reply) udp.send(reply, from.port, from.address)
  })
  return new Promise((resolve) => udp.bind(53, address, resolve))
}

function nameServer() {
  const tcp = net.createServer((socket) => {
    let data = Buffer.alloc(0)
    socket.on('error', () => {})
    socket.on('data', (piece) => {
      data = Buffer.concat([data, piece])
      while (data.length >= 2 && data.length >= 2 + data.readUInt16BE(0)) {
        const reply = answer(data.subarray(2, 2 + data.readUInt16BE(0)), 'tcp', plain(socket.localAddress))
        data = data.subarray(2 + data.readUInt16BE(0))
        if (reply) socket.write(Buffer.concat([Buffer.from([reply.length >> 8, reply.length & 255]), reply]))
      }
    })
  })
  return Promise.all([listen(tcp, 53), ...nameServers.map(nameServerAt)])
}

function datagramServer(port) {
  const socket = dgram.createSocket('udp6')
  socket.on('message', (message, from) => seen.datagrams.push({ port, from: plain(from.address), bytes: message.length }))
  return new Promise((resolve) => socket.bind(port, '::', resolve))
}

// WebSockets that echo on every web server, gRPC on port 50051, and the mirrors.
async function startTools(servers, certificates) {
  const { WebSocketServer } = await import('ws')
  const sockets = new WebSocketServer({ noServer: true })
  for (const server of servers)
    server.on('upgrade', (request, socket, head) => sockets.handleUpgrade(request, socket, head, (one) => one.on('message', (data, binary) => one.send(data, { binary }))))
  const { default: grpc } = await import('@grpc/grpc-js')
  const rpc = new grpc.Server()
  const call = { requestSerialize: Buffer.from, requestDeserialize: Buffer.from, responseSerialize: Buffer.from, responseDeserialize: Buffer.from }
  rpc.addService({ say: { path: '/space.Test/Say', requestStream: false, responseStream: false, ...call }, count: { path: '/space.Test/Count', requestStream: false, responseStream: true, ...call } }, {
    say: ({ request }, answer) => answer(null, Buffer.from(`heard ${request}`)),
    count: (stream) => { for (let i = 0; i < 1000; ++i) stream.write(Buffer.from(String(i))); stream.end() },
  })
  await new Promise((resolve, reject) => rpc.bindAsync('[::]:50051', grpc.ServerCredentials.createSsl(null, [{ private_key: Buffer.from(certificates.key), cert_chain: Buffer.from(certificates.cert) }]), (error) => (error ? reject(error) : resolve())))
  mirror = makeMirror('https://mirror.example.com/mirror')
}

async function start(message) {
  zone = message.zone
  const certificates = makeCertificates(message.names)
  const secure = http2.createSecureServer({ allowHTTP1: true, key: certificates.key, cert: certificates.cert }, serve)
  const clear = http.createServer(serve)
  const webs = [listen(clear, 80), listen(secure, 443)]
  webs.push(listen(http2.createSecureServer({ allowHTTP1: true, key: certificates.key, cert: certificates.cert }, serve), 8443))
  if (message.tools) await startTools([clear, secure], certificates)
  await Promise.all([...webs, nameServer(), ...plainPorts.map((port) => listen(plainServer(port), port)), ...[123, 443, 853, 5353, 9999].map(datagramServer)])
  return { ca: certificates.ca }
}

const asks = {
  start,
  zone: (message) => { zone = message.zone },
  seen: () => seen,
  forget: () => { for (const list of Object.values(seen)) list.length = 0 },
}
process.on('message', async (message) => {
  try {
    process.send({ id: message.id, answer: (await asks[message.ask](message)) ?? null })
  } catch (error) {
    process.send({ id: message.id, error: String(error.stack ?? error) })
  }
})
process.on('disconnect', () => { mirror?.remove(); process.exit(0) })
