// Files, through the SDK, in a VM.
import assert from 'node:assert/strict'
import crypto from 'node:crypto'
import { after, before, test } from 'node:test'
import { failure, Sandbox } from './sdk.mjs'

let sandbox
before(async () => { sandbox = await Sandbox.create({ timeoutMs: 600_000 }) })
after(async () => { await sandbox?.kill() })

test('write and read text; parents are made; the user owns it', async () => {
  const info = await sandbox.files.write('/home/user/a/b/c.txt', 'héllo\n')
  assert.equal(info.path, '/home/user/a/b/c.txt')
  assert.equal(await sandbox.files.read('/home/user/a/b/c.txt'), 'héllo\n')
  assert.equal((await sandbox.commands.run('stat -c %U /home/user/a/b/c.txt /home/user/a')).stdout, 'user\nuser\n')
})

test('relative paths start at home; overwriting truncates', async () => {
  await sandbox.files.write('rel.txt', 'a long first version')
  await sandbox.files.write('rel.txt', 'short')
  assert.equal((await sandbox.commands.run('cat /home/user/rel.txt')).stdout, 'short')
})

test('bytes survive both ways', async () => {
  const bytes = crypto.randomBytes(5 * 1024 * 1024 + 7)
  await sandbox.files.write('/tmp/blob', bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
  const sum = crypto.createHash('sha256').update(bytes).digest('hex')
  assert.equal((await sandbox.commands.run('sha256sum /tmp/blob')).stdout.split(' ')[0], sum)
  const back = await sandbox.files.read('/tmp/blob', { format: 'bytes' })
  assert.equal(crypto.createHash('sha256').update(back).digest('hex'), sum)
})

test('several files in one call', async () => {
  await sandbox.files.write([{ path: '/tmp/m1', data: 'one' }, { path: '/tmp/deep/m2', data: 'two' }])
  assert.equal((await sandbox.commands.run('cat /tmp/m1 /tmp/deep/m2')).stdout, 'onetwo')
})

test('an empty file is empty, not missing', async () => {
  await sandbox.files.write('/tmp/empty', '')
  assert.equal(await sandbox.files.read('/tmp/empty'), '')
})

test('a missing file and a folder are clear errors', async () => {
  assert.match((await failure(sandbox.files.read('/nope/file'))).message, /\/nope\/file|not/i)
  await failure(sandbox.files.read('/usr'))
  await failure(sandbox.files.write('/usr', 'x'))
})

test('files of /proc are read to their end', async () => {
  assert.match(await sandbox.files.read('/proc/version'), /^Linux version /)
})

test('a full disk is an error that says so, and the sandbox lives on', async () => {
  await sandbox.commands.run('mkdir -p /tmp/small && sudo mount -t tmpfs -o size=1m tmpfs /tmp/small && sudo chown user /tmp/small')
  const error = await failure(sandbox.files.write('/tmp/small/big', 'x'.repeat(3 * 1024 * 1024)))
  assert.match(`${error.constructor.name} ${error.message}`, /space/i)
  assert.equal((await sandbox.commands.run('echo alive')).stdout, 'alive\n')
})
