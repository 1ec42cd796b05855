// process.Process by hand: framing, errors, deadlines and fields that no JavaScript SDK shows, and what only the Python SDK
// sends.
import assert from 'node:assert/strict'
import http from 'node:http'
import { after, before, test } from 'node:test'
import { apiKey, apiUrl, daemonOnly, Sandbox, until } from './sdk.mjs'
import { call, collect, envelope, EventStream, program, reach, request, run, shell, unary } from './rpc.mjs'

let sandbox, to
before(async () => {
  sandbox = await Sandbox.create({ timeoutMs: 900_000 })
  to = await reach(sandbox)
})
after(async () => { to?.close(); await sandbox?.kill() })

const base64 = (text) => Buffer.from(text).toString('base64')
// A program whose stream is read in the background.
async function start(message, fields) {
  const stream = await EventStream.open(to, 'Start', message, fields)
  const started = {}
  started.done = collect(stream, (event) => { if (event.start) started.pid = event.start.pid })
  await until(() => started.pid !== undefined, 'the start')
  return { ...started, stream, selector: { process: { pid: started.pid } } }
}
const kill = (selector) => unary(to, 'SendSignal', { ...selector, signal: 'SIGNAL_SIGKILL' })

test('a stream is start, data, end, and one end-of-stream', async () => {
  const answer = await run(to, shell('echo out; echo err >&2; exit 3'))
  assert.deepEqual([answer.stdout, answer.stderr, answer.end], ['out\n', 'err\n', {}])
  assert.equal(answer.kinds[0], 'start')
  assert.equal(answer.kinds.at(-1), 'end')
  assert.deepEqual(answer.ends, [{ exitCode: 3, exited: true, status: 'exit status 3', error: 'exit status 3' }])
  const killed = await run(to, shell('kill -TERM $$'))
  assert.deepEqual(killed.ends, [{ exitCode: -1, exited: false, status: 'signal: terminated', error: 'signal: terminated' }])
})

test('the head of a stream is what the SDKs compare it with', async () => {
  const { answer } = await EventStream.open(to, 'Start', program('/bin/true'))
  assert.equal(answer.statusCode, 200)
  assert.equal(answer.headers['content-type'], 'application/connect+json')
  answer.resume()
})

test('a request in pieces, with members nobody knows and null ones, is understood', async () => {
  const body = envelope({ process: { cmd: '/bin/echo', args: ['whole'], envs: {}, cwd: null, later: [1] }, pty: null, tag: null, stdin: false, future: {} })
  const answer = await request(to, 'POST', '/process.Process/Start', { 'Content-Type': 'application/connect+json' },
    [body.subarray(0, 3), body.subarray(3, 20), body.subarray(20)])
  const seen = await collect(Object.assign(new EventStream(), { answer }))
  assert.equal(seen.stdout, 'whole\n')
})

test('messages of output are at most 32 KiB, of a terminal 16 KiB', async () => {
  const pipe = await run(to, shell('head -c 300000 /dev/zero'))
  assert.equal(pipe.stdout.length, 300_000)
  assert.ok(pipe.longest <= 32 * 1024, `${pipe.longest}`)
  const terminal = await run(to, { process: { cmd: '/bin/sh', args: ['-c', 'head -c 200000 /dev/zero | tr "\\0" x'] }, pty: { size: { cols: 80, rows: 24 } } })
  assert.equal(terminal.pty.length, 200_000)
  assert.ok(terminal.longest <= 16 * 1024, `${terminal.longest}`)
})

test('errors of streams come as 200 with an end-of-stream, before anything else', async () => {
  for (const [method, message, code, text] of [
    ['Start', { process: { cmd: '/bin/true', cwd: '/no/such' } }, 'invalid_argument', /^cwd '\/no\/such' does not exist$/],
    ['Start', { process: { cmd: 'no-such-program' } }, 'invalid_argument', /no-such-program/],
    ['Start', { process: { cmd: '/etc/passwd' } }, 'invalid_argument', /Permission denied/],
    ['Start', {}, 'invalid_argument', /process/],
    ['Start', { process: { cmd: '/bin/true', cwd: '~nobody' } }, 'invalid_argument', /~/],
    ['Connect', { process: { pid: 4_000_000 } }, 'not_found', /^process with pid 4000000 not found$/],
    ['Connect', { process: { tag: 'none' } }, 'not_found', /none/],
    ['Connect', { process: {} }, 'invalid_argument', /pid/],
  ]) {
    const stream = await EventStream.open(to, method, message)
    const { kinds, end } = await collect(stream)
    assert.equal(stream.answer.statusCode, 200)
    assert.deepEqual([kinds, end.error.code], [[], code], JSON.stringify(message))
    assert.match(end.error.message, text)
  }
  for (const [what, body] of [['compressed', envelope(program('/bin/true'), 1)], ['no JSON', envelope('{')], ['cut short', envelope(program('/bin/true')).subarray(0, 9)], ['empty', Buffer.alloc(0)]]) {
    const { kinds, end } = await collect(await EventStream.open(to, 'Start', body))
    assert.deepEqual([kinds, typeof end.error.code], [[], 'string'], what)
  }
})

test('errors of single calls carry their code and its status', async () => {
  const cat = await start({ process: { cmd: '/bin/cat' } })
  const deaf = await start(program('/bin/sleep', '630'))
  for (const [method, message, status, code] of [
    ['SendSignal', { process: { pid: 4_000_000 }, signal: 'SIGNAL_SIGKILL' }, 404, 'not_found'],
    ['SendSignal', { ...cat.selector, signal: 'SIGNAL_SIGHUP' }, 501, 'unimplemented'],
    ['SendSignal', { ...cat.selector }, 501, 'unimplemented'],
    ['SendInput', { ...cat.selector, input: { pty: base64('x') } }, 500, 'internal'],
    ['SendInput', { ...deaf.selector, input: { stdin: base64('x') } }, 500, 'internal'],
    ['SendInput', { ...cat.selector, input: { stdin: '%%%' } }, 400, 'invalid_argument'],
    ['SendInput', { ...cat.selector }, 400, 'invalid_argument'],
    ['Update', { ...cat.selector, pty: { size: { cols: 1, rows: 1 } } }, 400, 'invalid_argument'],
    ['Update', { process: { pid: 4_000_000 } }, 404, 'not_found'],
    ['List', '[]', 400, 'invalid_argument'],
    ['Nothing', {}, 501, 'unimplemented'],
  ]) {
    const answer = typeof message === 'string' ? await call(to, 'POST', `/process.Process/${method}`, { 'Content-Type': 'application/json' }, Buffer.from(message)) : await unary(to, method, message)
    assert.deepEqual([answer.status, answer.body.code, typeof answer.body.message], [status, code, 'string'], `${method} ${JSON.stringify(message)}`)
  }
  const terminal = await start({ process: { cmd: '/bin/cat' }, pty: { size: { cols: 9, rows: 9 } } })
  assert.deepEqual((await unary(to, 'CloseStdin', terminal.selector)).body.code, 'unknown')
  assert.equal((await unary(to, 'SendInput', { ...terminal.selector, input: { stdin: base64('x') } })).body.code, 'internal')
  for (const one of [cat, deaf, terminal]) { await kill(one.selector); await one.done }
})

test('signals by name and by number; CloseStdin twice; input in both alphabets', async () => {
  const term = await start(program('/bin/sleep', '631'))
  assert.deepEqual((await unary(to, 'SendSignal', { ...term.selector, signal: 15 })).body, {})
  assert.equal((await term.done).ends[0].status, 'signal: terminated')
  const cat = await start({ process: { cmd: '/bin/cat' }, tag: 'by tag' })
  const byTag = { process: { tag: 'by tag' } }
  assert.ok((await unary(to, 'List', {})).body.processes.some((p) => p.tag === 'by tag' && p.pid === cat.pid && p.config.cmd === '/bin/cat'))
  assert.deepEqual((await unary(to, 'SendInput', { ...byTag, input: { stdin: '-_-_' } })).body, {})
  assert.deepEqual((await unary(to, 'CloseStdin', byTag)).body, {})
  assert.ok([200, 404].includes((await unary(to, 'CloseStdin', byTag)).status))  // it may have ended
  assert.equal(Buffer.from((await cat.done).stdout).length > 0, true)
})

test('StreamInput feeds a program over one request; keepalives change nothing', async () => {
  const cat = await start({ process: { cmd: '/bin/cat' } })
  const answer = await request(to, 'POST', '/process.Process/StreamInput', { 'Content-Type': 'application/connect+json' },
    [envelope({ start: cat.selector }), envelope({ keepalive: {} }), envelope({ data: { input: { stdin: base64('one ') } } }), envelope({ data: { input: { stdin: base64('two') } } })])
  const parts = []
  for await (const part of answer) parts.push(part)
  assert.deepEqual(Buffer.concat(parts), Buffer.concat([envelope({}), envelope({}, 2)]))
  await unary(to, 'CloseStdin', cat.selector)
  assert.equal((await cat.done).stdout, 'one two')
})

test('a client that leaves in the middle of its input does not block the next one', async () => {
  const deaf = await start({ process: { cmd: '/bin/sh', args: ['-c', 'while [ ! -e /tmp/read-now ]; do sleep 0.1; done; wc -c'] } })
  const flood = base64('x'.repeat(200_000))  // a pipe holds 64 KiB
  const waiting = (method, body, type) => {
    const left = { answered: false }
    left.sent = http.request({ hostname: to.hostname, port: to.port, method: 'POST', path: `/process.Process/${method}`, headers: { ...to.fields, 'Content-Type': type, 'Content-Length': body.length } }, () => { left.answered = true })
    left.sent.on('error', () => {}).end(body)
    return left
  }
  const single = waiting('SendInput', Buffer.from(JSON.stringify({ ...deaf.selector, input: { stdin: flood } })), 'application/json')
  const queued = `import fcntl,struct,termios; print(struct.unpack("i",fcntl.ioctl(open("/proc/${deaf.pid}/fd/0","rb",0),termios.FIONREAD,b"1234"))[0])`
  await until(async () => (await run(to, program('python3', '-c', queued))).stdout === '65536\n', 'the pipe is full')
  const streamed = waiting('StreamInput', Buffer.concat([envelope({ start: deaf.selector }), envelope({ data: { input: { stdin: flood } } })]), 'application/connect+json')
  const last = unary(to, 'SendInput', { ...deaf.selector, input: { stdin: base64('last') } })
  for (const left of [single, streamed]) { assert.equal(left.answered, false); left.sent.destroy() }
  await run(to, shell('touch /tmp/read-now'))
  assert.equal((await last).status, 200)
  await unary(to, 'CloseStdin', deaf.selector)
  const count = Number((await deaf.done).stdout)
  assert.ok(count >= 65_536 + 4, `${count}`)
  await run(to, shell('rm /tmp/read-now'))
})

test('silence is filled with keepalives at the interval asked for', async () => {
  const answer = await run(to, shell('sleep 2.6; echo done'), { 'Keepalive-Ping-Interval': '1' })
  assert.deepEqual(answer.kinds, ['start', 'keepalive', 'data', 'end'])
  assert.equal(answer.stdout, 'done\n')
})

test('Connect-Timeout-Ms kills what Start started, and bounds only the stream of Connect', async () => {
  const late = await run(to, shell('echo early; sleep 632'), { 'Connect-Timeout-Ms': '700' })
  assert.deepEqual([late.stdout, late.ends, late.end.error.code], ['early\n', [], 'deadline_exceeded'])
  assert.ok(!(await unary(to, 'List', {})).body.processes.some((p) => p.pid === late.pid))
  const sleeper = await start(program('/bin/sleep', '633'), { 'Connect-Timeout-Ms': '0' })
  const watched = await collect(await EventStream.open(to, 'Connect', sleeper.selector, { 'Connect-Timeout-Ms': '300' }))
  assert.deepEqual([watched.pid, watched.ends, watched.end.error.code], [sleeper.pid, [], 'deadline_exceeded'])
  assert.ok((await unary(to, 'List', {})).body.processes.some((p) => p.pid === sleeper.pid))
  await kill(sleeper.selector)
  await sleeper.done
  const { end } = await collect(await EventStream.open(to, 'Start', program('/bin/true'), { 'Connect-Timeout-Ms': 'soon' }))
  assert.equal(end.error.code, 'invalid_argument')
})

test('the exit reaches every stream once and last, late ones too', async () => {
  const first = await start({ process: { cmd: '/bin/sh', args: ['-c', 'read x; echo told; exit 4'] } })
  const others = await Promise.all(Array.from({ length: 8 }, () => EventStream.open(to, 'Connect', first.selector).then((stream) => {
    const watched = { seen: false }
    watched.done = collect(stream, () => { watched.seen = true })
    return watched
  })))
  await until(() => others.every((other) => other.seen), 'all are attached')
  await unary(to, 'SendInput', { ...first.selector, input: { stdin: base64('\n') } })
  const late = () => EventStream.open(to, 'Connect', first.selector).then(collect)
  const all = [await first.done, ...await Promise.all(others.map((other) => other.done)), await late(), await late()]
  all.forEach((answer, i) => {
    assert.deepEqual([answer.pid, answer.kinds.at(-1), answer.ends.length, answer.ends[0].exitCode, answer.end], [first.pid, 'end', 1, 4, {}])
    if (i <= 8) assert.equal(answer.stdout, 'told\n')
  })
})

test('users come from the Basic credentials; other schemes and methods do not need one', async () => {
  const as = (user) => ({ Authorization: `Basic ${base64(`${user}:`)}` })
  assert.equal((await run(to, program('id', '-un'), as('root'))).stdout, 'root\n')
  assert.equal((await run(to, program('id', '-un'))).stdout, 'user\n')
  assert.equal((await run(to, program('id', '-un'), { Authorization: 'Bearer x' })).stdout, 'user\n')
  assert.deepEqual((await run(to, program('id'), as('ghost'))).end.error, { code: 'unauthenticated', message: "invalid username: 'ghost'" })
  assert.equal((await run(to, program('id'), { Authorization: 'Basic !!!' })).end.error.code, 'unauthenticated')
  assert.equal((await unary(to, 'List', {}, as('ghost'))).status, 200)
})

test('browsers: every origin may call and read; preflights need no token', async () => {
  const origin = { Origin: 'https://app.example' }
  const asked = { ...origin, 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'connect-protocol-version,content-type,x-access-token' }
  const { 'X-Access-Token': token, ...open } = to.fields
  const preflight = await call({ ...to, fields: open }, 'OPTIONS', '/process.Process/Start', asked)
  assert.equal(preflight.status, 204)
  assert.equal(preflight.fields['access-control-allow-origin'], '*')
  assert.match(preflight.fields['access-control-allow-methods'], /POST/)
  assert.match(preflight.fields['access-control-allow-headers'], /x-access-token|\*/)
  for (const answer of [await unary(to, 'List', {}, origin), await unary(to, 'SendSignal', { process: { pid: 4_000_000 } }, origin), await call(to, 'GET', '/nothing', origin)]) {
    assert.equal(answer.fields['access-control-allow-origin'], '*')
    assert.ok(answer.fields['access-control-expose-headers'])
  }
  const stream = await EventStream.open(to, 'Start', program('/bin/true'), origin)
  assert.equal(stream.answer.headers['access-control-allow-origin'], '*')
  stream.answer.resume()
})

if (!daemonOnly) {
  test('without the token, or with another, everything but health is 401 in the documented shape', async () => {
    const { 'X-Access-Token': token, ...open } = to.fields
    const message = 'unauthorized access, please provide a valid access token or method signing if supported'
    for (const wrong of [open, { ...open, 'X-Access-Token': '' }, { ...open, 'X-Access-Token': `${token}x` }, { ...open, 'X-Access-Token': token.slice(1) }]) {
      const stranger = { ...to, fields: wrong }
      for (const [method, path] of [['POST', '/process.Process/List'], ['POST', '/process.Process/Start'], ['GET', '/envs'], ['POST', '/filesystem.Filesystem/Stat']]) {
        const answer = await call(stranger, method, path, {})
        assert.deepEqual([answer.status, answer.body], [401, { code: 401, message }], path)
      }
      assert.equal((await call(stranger, 'GET', '/health', {})).status, 204)
      assert.equal((await call(stranger, 'GET', '/files?path=/etc/passwd', {})).status, 401)
    }
    assert.equal((await call(to, 'GET', '/envs', {})).status, 200)
  })

  test("the Python SDK's way: v1 routes with its fields, then JSON streams", async () => {
    const fields = { 'X-API-Key': apiKey, 'User-Agent': 'e2b-python-sdk/2.45.1', lang: 'python', lang_version: '3.11.2', package_version: '2.45.1', publisher: 'e2b', 'Content-Type': 'application/json' }
    const api = async (method, path, body) => {
      const answer = await fetch(apiUrl + path, { method, headers: fields, body: body && JSON.stringify(body) })
      return { status: answer.status, body: answer.status === 204 ? undefined : await answer.json() }
    }
    const created = await api('POST', '/sandboxes', { templateID: 'base', timeout: 300, metadata: {}, envVars: { FROM_PYTHON: '1' }, secure: true, allow_internet_access: true, autoPause: false })
    assert.equal(created.status, 201)
    const { sandboxID, envdAccessToken, envdVersion } = created.body
    assert.match(envdVersion, /^0\.6\./)
    const connected = await api('POST', `/sandboxes/${sandboxID}/connect`, { timeout: 300 })
    assert.deepEqual([connected.status, connected.body.envdAccessToken], [200, envdAccessToken])
    const guest = { ...to, fields: { 'E2b-Sandbox-Id': sandboxID, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': envdAccessToken, 'User-Agent': 'e2b-python-sdk/2.45.1' } }
    const python = { 'Connect-Timeout-Ms': '60000', 'Keepalive-Ping-Interval': '50', 'Accept-Encoding': 'identity', 'Connect-Content-Encoding': 'identity', Authorization: `Basic ${base64('user:')}` }
    const answer = await run(guest, { process: { cmd: '/bin/bash', args: ['-l', '-c', 'echo $FROM_PYTHON'], envs: {} }, stdin: false }, python)
    assert.deepEqual([answer.stdout, answer.end], ['1\n', {}])
    assert.equal((await api('DELETE', `/sandboxes/${sandboxID}`)).status, 204)
  })

  test('ports of the guest: loopback only, of IPv6 only, every address; a body of any length both ways; one that comes late', async () => {
    const server = `import http.server,socket,sys,threading
class H(http.server.BaseHTTPRequestHandler):
  protocol_version='HTTP/1.1'
  def log_message(self,*a): pass
  def do_POST(self):
    n=int(self.headers['Content-Length']); left=n
    while left: left-=len(self.rfile.read(min(left,65536)))
    self.send_response(200); self.send_header('Content-Length',str(n)); self.end_headers(); self.wfile.write(b'y'*n)
def serve(family,address,port):
  class S(http.server.ThreadingHTTPServer): address_family=family
  S((address,port),H).serve_forever()
for a in [(socket.AF_INET,'127.0.0.1',8201),(socket.AF_INET6,'::1',8202),(socket.AF_INET,'0.0.0.0',8203)]: threading.Thread(target=serve,args=a).start()`
    await sandbox.files.write('/tmp/server.py', server)
    const handle = await sandbox.commands.run('python3 /tmp/server.py', { background: true, timeoutMs: 0 })
    const body = Buffer.alloc(3_000_000, 'x')
    for (const port of [8201, 8202, 8203]) {
      const guest = { ...to, fields: { ...to.fields, 'E2b-Sandbox-Port': String(port) } }
      let answer
      await until(async () => (answer = await call(guest, 'POST', '/', {}, body)).status === 200, `port ${port} answers`)
      assert.equal(answer.body.length, body.length)
    }
    await handle.kill()
  })
}
