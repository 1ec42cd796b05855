// space logs and space top on real sandboxes.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { until } from '../e2b/sdk.mjs'
import { qemuOf } from './machine.mjs'

const program = `${process.env.SPACE_BUILD}/space`
const space = (...args) => spawnSync(program, args, { encoding: 'utf8' })
const create = () => space('create').stdout.trim()
const print = (id, text) => assert.equal(space('exec', '-u', 'root', id, '--', 'sh', '-c', `printf '${text}\\n' > /dev/ttyS0`).status, 0)

test('logs tell the life of a sandbox, its console included, also after its end', async () => {
  const id = create()
  print(id, 'hello from the console')
  await until(() => /\| hello from the console/.test(space('logs', id).stdout), 'the line on the console')
  const lines = space('logs', id).stdout
  assert.match(lines, /info +sandbox created +template=[0-9a-f]{64}/)
  assert.match(lines, /info +sandbox started +ms=\d+/)
  const entries = JSON.parse(space('logs', '--json', id).stdout).logs
  assert.equal(new Set(entries.map((entry) => entry.timestamp)).size, entries.length)
  assert.equal(space('logs', '--level', 'error', id).stdout, '')
  assert.match(space('logs', '--since', '1h', id).stdout, /sandbox started/)
  assert.equal(space('logs', '--since', 'yesterday', id).status, 2)

  const follow = spawn(program, ['logs', '-f', id], { stdio: ['ignore', 'pipe', 'inherit'] })
  let seen = ''
  follow.stdout.on('data', (data) => { seen += data })
  const ended = new Promise((resolve) => follow.on('exit', resolve))
  await until(() => seen.includes('sandbox started'), 'the first lines')
  print(id, '\\033[2Jred\\007')
  await until(() => seen.includes('\\x1b[2Jred\\x07'), 'the new line, spelt out')
  assert.ok(!seen.includes('\x1b'))
  space('kill', id)
  assert.equal(await ended, 0)
  assert.equal(seen.match(/sandbox started/g).length, 1)
  assert.match(space('logs', id).stdout, /sandbox deleted/)
})

test('logs say why a sandbox died', async () => {
  const id = create()
  process.kill(qemuOf(id).pid, 'SIGKILL')
  await until(() => /error +sandbox died +reason=.*signal 9/.test(space('logs', id).stdout), 'the cause in its log')
  space('kill', id)
  assert.equal(space('logs', 'i0000000000000000000').status, 1)
})

test('top shows what runs, once and for machines', async () => {
  const ids = [create(), create()]
  try {
    const table = space('top', '--once', '--sort', 'mem')
    assert.equal(table.status, 0, table.stderr)
    assert.match(table.stdout, /^SANDBOX +TEMPLATE +CPU% +MEMORY/)
    for (const id of ids) assert.match(table.stdout, new RegExp(`${id} +base +\\S+ +[\\d.]+ MiB / [\\d.]+ MiB`))
    const document = JSON.parse(space('top', '--json').stdout)
    assert.deepEqual(document.sandboxes.map((one) => one.sandboxID).sort(), [...ids].sort())
    assert.ok(document.sandboxes.every((one) => one.vmm.rss > 0 && one.activity.idleSeconds >= 0))

    for (const key of ['q', '\x03']) {
      const top = spawn('script', ['-qec', `${program} top`, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] })
      let screen = ''
      top.stdout.on('data', (data) => { screen += data })
      const ended = new Promise((resolve) => top.on('exit', resolve))
      await until(() => ids.every((id) => screen.includes(id)), 'the table on a terminal')
      top.stdin.write(key)
      assert.equal(await ended, 0)
      assert.ok(screen.includes('\x1b[?1049l'), 'the first screen is back')
    }
  } finally {
    space('kill', ...ids)
  }
})
