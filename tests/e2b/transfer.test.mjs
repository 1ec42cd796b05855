// Files in and out by every way the protocol has: raw, forms, streams, gzip, parts, conditions, metadata.
import assert from 'node:assert/strict'
import crypto from 'node:crypto'
import http from 'node:http'
import { after, before, test } from 'node:test'
import zlib from 'node:zlib'
import { apiUrl, dataPlaneHeaders, failure, newest, Sandbox } from './sdk.mjs'

let sandbox
let headers
before(async () => {
  sandbox = await Sandbox.create({ timeoutMs: 600_000 })
  headers = await dataPlaneHeaders(sandbox)
})
after(async () => { await sandbox?.kill() })

const sha256 = (bytes) => crypto.createHash('sha256').update(Buffer.from(bytes)).digest('hex')
const inGuest = async (path) => (await sandbox.commands.run(`sha256sum ${path}`)).stdout.split(' ')[0]
const text = Array.from({ length: 60_000 }, (_, i) => `line ${i}\n`).join('')

// A request without anything fetch adds or undoes: {status, headers, body}.
function plain(method, target, fields = {}, body = undefined) {
  return new Promise((resolve, reject) => {
    const request = http.request(apiUrl + target, { method, headers: { ...headers, ...fields } }, (answer) => {
      const pieces = []
      answer.on('data', (piece) => pieces.push(piece))
      answer.on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(pieces) }))
      answer.on('error', reject)
    })
    request.on('error', reject)
    request.end(body)
  })
}
const get = (path, fields = {}) => plain('GET', `/files?path=${encodeURIComponent(path)}`, fields)

test('the SDK writes and reads with gzip on and off', async () => {
  for (const up of [false, true]) {
    for (const down of [false, true]) {
      const path = `/tmp/gzip-${up}-${down}`
      await sandbox.files.write(path, text, { gzip: up })
      assert.equal(await inGuest(path), sha256(text))
      assert.equal(await sandbox.files.read(path, { gzip: down }), text)
      assert.equal(sha256(await sandbox.files.read(path, { format: 'bytes', gzip: down })), sha256(text))
    }
  }
})

test('raw bodies, forms, blobs and streams arrive alike', async () => {
  const bytes = crypto.randomBytes(3 * 1024 * 1024 + 1)
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)
  const stream = () => new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += 100_000) controller.enqueue(new Uint8Array(bytes.subarray(at, at + 100_000)))
      controller.close()
    },
  })
  for (const [name, data, options] of [['form', buffer, {}], ['raw', buffer, { useOctetStream: true }], ['blob', new Blob([buffer]), {}], ['stream', stream(), {}], ['packed', stream(), { gzip: true }]]) {
    const info = await sandbox.files.write(`/tmp/way/${name}`, data, options)
    assert.equal(info.path, `/tmp/way/${name}`)
    assert.equal(await inGuest(`/tmp/way/${name}`), sha256(bytes), name)
  }
  const hash = crypto.createHash('sha256')
  for await (const piece of await sandbox.files.read('/tmp/way/raw', { format: 'stream' })) hash.update(piece)
  assert.equal(hash.digest('hex'), sha256(bytes))
})

test('a form may hold many files, a chosen path, and parts that are not files', async () => {
  const form = new FormData()
  form.append('file', new Blob(['one']), '/tmp/form/a b/1')
  form.append('note', 'not a file')
  form.append('file', new Blob(['two']), '/tmp/form/2')
  const written = await fetch(`${apiUrl}/files`, { method: 'POST', headers, body: form })
  assert.deepEqual(await written.json(), [{ path: '/tmp/form/a b/1', name: '1', type: 'file' }, { path: '/tmp/form/2', name: '2', type: 'file' }])
  const chosen = new FormData()
  chosen.append('file', new Blob(['three']), 'ignored')
  assert.equal((await fetch(`${apiUrl}/files?path=/tmp/form/3`, { method: 'POST', headers, body: chosen })).status, 200)
  assert.equal((await sandbox.commands.run('cat "/tmp/form/a b/1" /tmp/form/2 /tmp/form/3')).stdout, 'onetwothree')
  const twice = new FormData()
  twice.append('file', new Blob(['x']), '/tmp/form/2')
  twice.append('file', new Blob(['y']), '/tmp/form/2')
  assert.equal((await fetch(`${apiUrl}/files`, { method: 'POST', headers, body: twice })).status, 400)
})

test('bodies that are not what they say are refused', async () => {
  const raw = { 'Content-Type': 'application/octet-stream' }
  assert.equal((await plain('POST', '/files?path=/tmp/x', { ...raw, 'Content-Encoding': 'gzip' }, 'no gzip')).status, 400)
  assert.equal((await plain('POST', '/files?path=/tmp/x', { ...raw, 'Content-Encoding': 'br' }, 'x')).status, 415)
  assert.equal((await plain('POST', '/files?path=/tmp', raw, 'x')).status, 400)
  assert.equal((await plain('POST', '/files?path=/tmp/x&username=nobody-here', raw, 'x')).status, 401)
  assert.equal((await plain('POST', '/files?path=/tmp/x', { 'Content-Type': 'multipart/form-data; boundary=B' }, '--B\r\nbroken')).status, 400)
})

test('a compressed body that does not fit is 507, and the sandbox lives on', async () => {
  await sandbox.commands.run('mkdir -p /tmp/small && sudo mount -t tmpfs -o size=1m tmpfs /tmp/small && sudo chown user /tmp/small')
  const bomb = zlib.gzipSync(Buffer.alloc(64 * 1024 * 1024))
  const answer = await plain('POST', '/files?path=/tmp/small/bomb', { 'Content-Type': 'application/octet-stream', 'Content-Encoding': 'gzip' }, bomb)
  assert.equal(answer.status, 507)
  assert.equal(JSON.parse(answer.body).code, 507)
  assert.equal((await sandbox.commands.run('echo alive')).stdout, 'alive\n')
})

test('gzip is sent to who asks for it, not to who only can', async () => {
  await sandbox.files.write('/tmp/text', text)
  const packed = await get('/tmp/text', { 'Accept-Encoding': 'gzip' })
  assert.equal(packed.headers['content-encoding'], 'gzip')
  assert.equal(packed.headers.vary, 'Accept-Encoding')
  assert.ok(packed.body.length < text.length / 2)
  assert.equal(zlib.gunzipSync(packed.body).toString(), text)
  for (const offered of ['gzip, deflate', 'gzip;q=0', 'identity, gzip;q=0.5']) {
    const answer = await get('/tmp/text', { 'Accept-Encoding': offered })
    assert.equal(answer.headers['content-encoding'], undefined, offered)
    assert.equal(answer.headers['content-length'], String(text.length))
  }
  assert.equal((await get('/tmp/text', { 'Accept-Encoding': 'identity;q=0' })).status, 406)
})

test('parts of a file', async () => {
  await sandbox.files.write('/tmp/text', text)
  const size = text.length
  for (const [range, first, end] of [['bytes=0-9', 0, 10], ['bytes=300000-', 300_000, size], ['bytes=-7', size - 7, size], ['bytes=262140-262150', 262_140, 262_151]]) {
    const answer = await get('/tmp/text', { Range: range, 'Accept-Encoding': 'gzip' })
    assert.equal(answer.status, 206, range)
    assert.equal(answer.headers['content-range'], `bytes ${first}-${end - 1}/${size}`)
    assert.equal(answer.body.toString(), text.slice(first, end))
  }
  const outside = await get('/tmp/text', { Range: `bytes=${size}-` })
  assert.equal(outside.status, 416)
  assert.equal(outside.headers['content-range'], `bytes */${size}`)
  assert.equal((await get('/tmp/text', { Range: 'bytes=0-1,5-6' })).body.length, size)
})

test('conditions', async () => {
  await sandbox.commands.run('echo -n first > /tmp/c; touch -d "2020-01-01 UTC" /tmp/c; sleep 0.2')
  const first = await get('/tmp/c')
  assert.equal(first.headers['last-modified'], 'Wed, 01 Jan 2020 00:00:00 GMT')
  assert.match(first.headers.etag, /^"/)
  assert.equal((await get('/tmp/c', { 'If-None-Match': first.headers.etag })).status, 304)
  assert.equal((await get('/tmp/c', { 'If-Modified-Since': first.headers['last-modified'] })).status, 304)
  assert.equal((await get('/tmp/c', { 'If-Unmodified-Since': 'Tue, 31 Dec 2019 00:00:00 GMT' })).status, 412)
  assert.equal((await get('/tmp/c', { 'If-Match': '"other"' })).status, 412)
  assert.equal((await get('/tmp/c', { 'If-Range': first.headers.etag, Range: 'bytes=0-0' })).body.toString(), 'f')
  await sandbox.commands.run('echo -n other > /tmp/c')
  assert.equal((await get('/tmp/c', { 'If-None-Match': first.headers.etag })).body.toString(), 'other')
  assert.equal((await get('/tmp/c', { 'If-Range': first.headers.etag, Range: 'bytes=0-0' })).body.toString(), 'other')
  const head = await plain('HEAD', '/files?path=/tmp/c')
  assert.equal(head.headers['content-length'], '5')
  assert.equal(head.body.length, 0)
})

test('files of /proc and /sys are read to their end', async () => {
  assert.match(await sandbox.files.read('/proc/self/status'), /Name:/)
  assert.match(await sandbox.files.read('/proc/self/status', { gzip: true }), /Name:/)
  const symbols = await get('/proc/kallsyms')
  assert.equal(symbols.headers['content-length'], undefined)
  assert.ok(symbols.body.length > 300_000)
  assert.equal((await get('/sys/class/net/lo/mtu')).body.toString(), '65536\n')
})

test('metadata is kept beside the file and replaced as a whole', async () => {
  const attributes = async (path) => JSON.parse((await sandbox.commands.run(`python3 -c "import os,json; print(json.dumps({n: os.getxattr('${path}', n).decode() for n in sorted(os.listxattr('${path}'))}))"`)).stdout)
  const raw = { 'Content-Type': 'application/octet-stream' }
  const first = await plain('POST', '/files?path=/home/user/m', { ...raw, 'X-Metadata-Author': 'me', 'X-Metadata-Kind': 'a b' }, 'x')
  assert.deepEqual(JSON.parse(first.body)[0].metadata, { author: 'me', kind: 'a b' })
  assert.deepEqual(await attributes('/home/user/m'), { 'user.e2b.author': 'me', 'user.e2b.kind': 'a b' })
  await plain('POST', '/files?path=/home/user/m', { ...raw, 'X-Metadata-Author': 'you' }, 'x')
  assert.deepEqual(await attributes('/home/user/m'), { 'user.e2b.author': 'you' })
  await plain('POST', '/files?path=/home/user/m', raw, 'x')
  assert.deepEqual(await attributes('/home/user/m'), {})
  assert.equal((await plain('POST', '/files?path=/home/user/m', { ...raw, 'X-Metadata-k': 'v'.repeat(5000) }, 'x')).status, 400)
  if (!newest) return  // the older SDK knows no metadata
  const info = await sandbox.files.write('/home/user/sdk', 'x', { metadata: { Tag: 'v1' } })
  assert.deepEqual(info.metadata, { tag: 'v1' })
  assert.deepEqual(await attributes('/home/user/sdk'), { 'user.e2b.tag': 'v1' })
})

test('compose joins files and removes the sources', async () => {
  await sandbox.files.write([{ path: '/tmp/p/1', data: 'one ' }, { path: '/tmp/p/2', data: 'two' }])
  const compose = (body) => plain('POST', '/files/compose', { 'Content-Type': 'application/json' }, JSON.stringify(body))
  assert.equal((await compose({ source_paths: ['/tmp/p/1', '/tmp/p/missing'], destination: '/tmp/p/all' })).status, 404)
  const made = await compose({ source_paths: ['/tmp/p/1', '/tmp/p/2'], destination: '/tmp/p/all' })
  assert.equal(made.status, 200, made.body.toString())
  assert.deepEqual(JSON.parse(made.body), { path: '/tmp/p/all', name: 'all', type: 'file' })
  assert.equal((await sandbox.commands.run('cat /tmp/p/all; ls -A /tmp/p; stat -c %U /tmp/p/all')).stdout, 'one twoall\nuser\n')
})

test('the guest tells its figures', async () => {
  const figures = JSON.parse((await plain('GET', '/metrics')).body)
  for (const name of ['ts', 'cpu_count', 'cpu_used_pct', 'mem_total', 'mem_used', 'mem_cache', 'mem_total_mib', 'mem_used_mib', 'disk_used', 'disk_total'])
    assert.equal(typeof figures[name], 'number', name)
  assert.ok(figures.cpu_used_pct >= 0 && figures.cpu_used_pct <= 100)
  assert.ok(figures.mem_used > 0 && figures.mem_used < figures.mem_total)
})

test('a file that cannot be is a clear error', async () => {
  assert.match((await failure(sandbox.files.read('/nope/file'))).message, /\/nope\/file/)
  assert.deepEqual(JSON.parse((await get('/nope/file')).body), { code: 404, message: "path '/nope/file' does not exist" })
  for (const path of ['/usr', '/dev/null', '~bob/x']) assert.equal((await get(path)).status, 400, path)
})
