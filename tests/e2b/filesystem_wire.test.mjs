// filesystem.Filesystem by hand: what only the Python SDK sends (polled watchers, snake case), the error codes it reads, and
// the framing of watches.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { apiUrl, daemonOnly, dataPlaneHeaders, Sandbox, until } from './sdk.mjs'

let sandbox, headers
before(async () => {
  sandbox = await Sandbox.create({ timeoutMs: 600_000 })
  headers = await dataPlaneHeaders(sandbox)
})
after(async () => { await sandbox?.kill() })

// Some of them make hundreds of thousands of calls, which takes a crowded machine minutes.
const run = async (command) => (await sandbox.commands.run(command, { timeoutMs: 300_000 })).stdout
const basic = (user) => ({ Authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}` })

async function rpc(method, message, more = {}) {
  const answer = await fetch(`${apiUrl}/filesystem.Filesystem/${method}`, {
    method: 'POST',
    headers: { ...headers, 'Content-Type': 'application/json', 'Connect-Protocol-Version': '1', ...more },
    body: typeof message === 'string' ? message : JSON.stringify(message),
  })
  return { status: answer.status, type: answer.headers.get('content-type'), body: await answer.json() }
}

function envelope(message) {
  const payload = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(payload.length, 1)
  return Buffer.concat([head, payload])
}

// The messages of a stream one by one, the last with `end`: what follows it is an error.
async function* messages(response) {
  let data = Buffer.alloc(0)
  let end
  for await (const chunk of response.body) {
    data = Buffer.concat([data, chunk])
    for (let at = 0; ;) {
      const size = data.length - at >= 5 ? data.readUInt32BE(at + 1) : Infinity
      if (data.length - at < 5 + size) {
        data = data.subarray(at)
        break
      }
      assert.equal(end, undefined, 'a message after the end of the stream')
      const message = JSON.parse(data.subarray(at + 5, at + 5 + size).toString('utf8'))
      if (data[at] === 2) end = message
      yield data[at] === 2 ? { end: message } : message
      at += 5 + size
    }
  }
  assert.ok(end, 'the stream ends without saying so')
  assert.equal(data.length, 0)
}

const watchDir = (message, more = {}) => fetch(`${apiUrl}/filesystem.Filesystem/WatchDir`, {
  method: 'POST',
  headers: { ...headers, 'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1', ...more },
  body: envelope(message),
})

async function all(response) {
  const list = []
  for await (const message of messages(response)) list.push(message)
  return list
}

test('entries as protobuf writes them: 64-bit numbers and times as text, enums by name', async () => {
  await run('mkdir -p wire && printf 123 > wire/f && touch -d 2020-02-03T04:05:06.789Z wire/f')
  const { status, type, body } = await rpc('Stat', { path: 'wire/f', unknownMember: [1] })
  assert.equal(status, 200)
  assert.equal(type, 'application/json')
  assert.deepEqual(body.entry, {
    name: 'f', type: 'FILE_TYPE_FILE', path: '/home/user/wire/f', size: '3', mode: 0o644, permissions: '-rw-r--r--',
    owner: 'user', group: 'user', modifiedTime: '2020-02-03T04:05:06.789000000Z',
  })
  for (const depth of [1, '1', 0, undefined]) {
    const list = await rpc('ListDir', { path: 'wire', depth })
    assert.deepEqual(list.body.entries.map((entry) => entry.name), ['f'])
  }
})

test('error codes: a string code, its HTTP status and a message', async () => {
  await run('mkdir -p codes/full/x && touch codes/f && ln -s loop codes/loop')
  const table = [
    ['Stat', { path: 'codes/none' }, 404, 'not_found'],
    ['Stat', { path: 'codes/f/x' }, 404, 'not_found'],
    ['Stat', { path: '~bob/x' }, 400, 'invalid_argument'],
    ['Stat', '{"path":', 400, 'invalid_argument'],
    ['Stat', { path: ['x'] }, 400, 'invalid_argument'],
    ['MakeDir', { path: 'codes/full' }, 409, 'already_exists'],
    ['MakeDir', { path: 'codes/f' }, 400, 'invalid_argument'],
    ['MakeDir', { path: '' }, 400, 'invalid_argument'],
    ['Move', { source: 'codes/none', destination: 'codes/x' }, 404, 'not_found'],
    ['Move', { source: 'codes', destination: 'codes/full/x/y' }, 400, 'invalid_argument'],
    ['Move', { source: 'wire', destination: 'codes/full' }, 400, 'failed_precondition'],
    ['ListDir', { path: 'codes/none' }, 404, 'not_found'],
    ['ListDir', { path: 'codes/f' }, 400, 'invalid_argument'],
    ['ListDir', { path: 'codes/loop' }, 400, 'failed_precondition'],
    ['Remove', { path: '/' }, 400, 'invalid_argument'],
    ['CreateWatcher', { path: 'codes/none' }, 404, 'not_found'],
    ['CreateWatcher', { path: 'codes/f' }, 400, 'invalid_argument'],
    ['GetWatcherEvents', { watcher_id: 'none' }, 404, 'not_found'],
    ['RemoveWatcher', { watcherId: 'none' }, 404, 'not_found'],
    ['RemoveWatcher', {}, 400, 'invalid_argument'],
    ['Chmod', {}, 501, 'unimplemented'],
  ]
  for (const [method, message, status, code] of table) {
    const answer = await rpc(method, message)
    assert.deepEqual([answer.status, answer.body.code], [status, code], `${method} ${JSON.stringify(message)}: ${JSON.stringify(answer.body)}`)
    assert.equal(typeof answer.body.message, 'string')
  }
  const unknown = await rpc('Stat', { path: '/' }, basic('nobody-known'))
  assert.deepEqual([unknown.status, unknown.body.code], [401, 'unauthenticated'])
  assert.equal((await rpc('Stat', { path: '~' }, basic('root'))).body.entry.path, '/root')
  const token = await rpc('Stat', { path: '/' }, { 'X-Access-Token': 'wrong' })
  assert.deepEqual([token.status, token.body.code], daemonOnly ? [200, undefined] : [401, 401])
  assert.equal((await fetch(`${apiUrl}/filesystem.Filesystem/Stat`, { headers })).status, 405)
})

test('polled watchers, as the synchronous Python SDK uses them', async () => {
  await run('mkdir -p polled')
  const made = await rpc('CreateWatcher', { path: 'polled', recursive: true, include_entry: true, allow_network_mounts: false })
  assert.equal(made.status, 200)
  const id = made.body.watcherId
  const first = await rpc('GetWatcherEvents', { watcher_id: id })
  assert.deepEqual(first.body.events ?? [], [])
  await run('mkdir -p polled/a/b && printf 12 > polled/a/b/f')
  const events = []
  await until(async () => {
    events.push(...((await rpc('GetWatcherEvents', { watcher_id: id })).body.events ?? []))
    return events.some((event) => event.name === 'a/b/f' && event.type === 'EVENT_TYPE_WRITE')
  }, 'the file told')
  assert.deepEqual(events.filter((event) => event.type === 'EVENT_TYPE_CREATE').map((event) => event.name), ['a', 'a/b', 'a/b/f'])
  assert.equal(events.at(-1).entry.size, '2')
  assert.deepEqual((await rpc('RemoveWatcher', { watcher_id: id })).body, {})
  assert.equal((await rpc('GetWatcherEvents', { watcher_id: id })).status, 404)
})

test('a polled watcher tells the end of its folder, then the error', async () => {
  await run('mkdir -p polled-end')
  const id = (await rpc('CreateWatcher', { path: 'polled-end' })).body.watcherId
  await run('rm -r polled-end')
  let answer
  const names = []
  await until(async () => {
    answer = await rpc('GetWatcherEvents', { watcherId: id })
    names.push(...(answer.body.events ?? []).map((event) => `${event.type} ${event.name}`))
    return answer.status !== 200
  }, 'the end of the watcher')
  assert.deepEqual(names, ['EVENT_TYPE_REMOVE .'])
  assert.equal(answer.body.code, 'not_found')
  assert.equal((await rpc('RemoveWatcher', { watcherId: id })).status, 200)
})

test('polled watchers are bounded, and removing makes room', async () => {
  const ids = []
  let answer
  do {
    answer = await rpc('CreateWatcher', { path: '/tmp' })
    if (answer.status === 200) ids.push(answer.body.watcherId)
  } while (answer.status === 200 && ids.length < 200)
  assert.deepEqual([answer.status, answer.body.code], [429, 'resource_exhausted'])
  assert.equal(ids.length, 64)
  for (const id of ids) await rpc('RemoveWatcher', { watcherId: id })
  const again = await rpc('CreateWatcher', { path: '/tmp' })
  assert.equal(again.status, 200)
  await rpc('RemoveWatcher', { watcherId: again.body.watcherId })
})

test('a watch begins with start, keeps itself alive and ends at its timeout', async () => {
  await run('mkdir -p timed')
  const list = await all(await watchDir({ path: 'timed' }, { 'Keepalive-Ping-Interval': '1', 'Connect-Timeout-Ms': '2500' }))
  assert.deepEqual(list[0], { start: {} })
  assert.ok(list.slice(1, -1).length > 0)
  for (const message of list.slice(1, -1)) assert.deepEqual(message, { keepalive: {} })
  assert.equal(list.at(-1).end.error.code, 'deadline_exceeded')
})

test('errors of a watch come at the end of a stream with status 200', async () => {
  await run('touch not-a-folder')
  for (const [path, code] of [['none', 'not_found'], ['not-a-folder', 'invalid_argument'], ['~bob', 'invalid_argument']]) {
    const response = await watchDir({ path })
    assert.equal(response.status, 200)
    assert.equal(response.headers.get('content-type'), 'application/connect+json')
    const list = await all(response)
    assert.equal(list.length, 1)
    assert.equal(list[0].end.error.code, code)
  }
  const list = await all(await watchDir({ path: '/' }, basic('nobody-known')))
  assert.equal(list[0].end.error.code, 'unauthenticated')
})

test('a watch nobody reads ends with data_loss after what it held, and the sandbox lives on', async () => {
  await run('mkdir -p lost && touch lost/f lost/g')
  const response = await watchDir({ path: 'lost' })
  const stream = messages(response)
  assert.deepEqual((await stream.next()).value, { start: {} })
  await run("python3 -c \"import os\nfor i in range(200000): os.chmod('lost/' + 'fg'[i % 2], 0o600)\"")
  let told = 0
  let end
  for await (const message of stream) {
    if (message.filesystem) told += 1
    else end = message.end
  }
  assert.equal(end.error.code, 'data_loss')
  assert.ok(told >= 65536 && told < 200000, `${told}`)
  const again = messages(await watchDir({ path: 'lost' }))
  assert.deepEqual((await again.next()).value, { start: {} })
  await again.return()
})
