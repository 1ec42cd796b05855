// files.list, exists, getInfo, makeDir, rename and remove, through the SDK, in a VM.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { failure, newest, Sandbox, sdk } from './sdk.mjs'

let sandbox
const run = async (command) => (await sandbox.commands.run(command)).stdout
const python = (script) => run(`python3 - <<'END'\n${script}\nEND`)
const names = async (path, options) => (await sandbox.files.list(path, options)).map((entry) => entry.path.slice(path.length + 1))

before(async () => { sandbox = await Sandbox.create({ timeoutMs: 600_000 }) })
after(async () => { await sandbox?.kill() })

test('a folder is made once, with its parents, for the user', async () => {
  assert.equal(await sandbox.files.makeDir('made/one/two'), true)
  assert.equal(await sandbox.files.makeDir('made/one/two'), false)
  assert.equal(await run('stat -c "%U %G %a" made made/one/two'), 'user user 755\nuser user 755\n')
  await sandbox.files.write('made/file', 'x')
  assert.match((await failure(sandbox.files.makeDir('made/file'))).message, /not a directory/)
})

test('another user: paths start at his home and he owns what is made; an unknown one is refused', async () => {
  assert.equal(await sandbox.files.makeDir('by-root', { user: 'root' }), true)
  const info = await sandbox.files.getInfo('/root/by-root')
  assert.equal(info.owner, 'root')
  assert.match((await failure(sandbox.files.list('/', { user: 'nobody-known' }))).message, /invalid username/)
})

test('getInfo tells everything about a file', async () => {
  await run('mkdir -p info && printf 12345 > info/f && chmod 640 info/f && touch -d 2020-02-03T04:05:06.789Z info/f')
  const info = await sandbox.files.getInfo('info/f')
  assert.equal(info.name, 'f')
  assert.equal(info.path, '/home/user/info/f')
  assert.equal(info.type, 'file')
  assert.equal(info.size, 5)
  assert.equal(info.mode, 0o640)
  assert.equal(info.permissions, '-rw-r-----')
  assert.equal(info.owner, 'user')
  assert.equal(info.group, 'user')
  assert.equal(info.modifiedTime.toISOString(), '2020-02-03T04:05:06.789Z')
  assert.equal(info.symlinkTarget, undefined)
  assert.equal((await sandbox.files.getInfo('info')).type, 'dir')
  assert.equal((await sandbox.files.getInfo('/tmp')).permissions, 'dtrwxrwxrwx')
  assert.equal((await sandbox.files.getInfo('/')).path, '/')
})

test('links: what they are and what they lead to', async () => {
  await run('mkdir -p links/d && cd links && echo text > f && chmod 600 f && ln -s f to-f && ln -s d to-d && ln -s none dangling && ln -s loop loop')
  const toFile = await sandbox.files.getInfo('links/to-f')
  assert.deepEqual([toFile.type, toFile.symlinkTarget, toFile.permissions, toFile.mode],
    ['file', '/home/user/links/f', 'Lrwxrwxrwx', 0o600])
  assert.equal((await sandbox.files.getInfo('links/to-d')).type, 'dir')
  assert.equal(await sandbox.files.exists('links/dangling'), true)
  assert.equal((await sandbox.files.getInfo('links/dangling')).symlinkTarget, '/home/user/links/dangling')
  assert.equal(await sandbox.files.exists('links/loop'), true)
  await sandbox.files.remove('links/to-d')
  assert.equal(await sandbox.files.exists('links/d'), true)
})

test('exists', async () => {
  assert.equal(await sandbox.files.exists('/etc/passwd'), true)
  assert.equal(await sandbox.files.exists('/etc/none'), false)
  assert.equal(await sandbox.files.exists('/etc/passwd/none'), false)
  assert.match((await failure(sandbox.files.getInfo('/etc/none'))).constructor.name, /NotFoundError/)
})

test('list: order, depth, links; missing and files are errors', async () => {
  await run('mkdir -p list/b/c && cd list && touch b/c/x b.txt a && ln -s b link')
  const folder = '/home/user/list'
  assert.deepEqual(await names(folder), ['a', 'b', 'b.txt', 'link'])
  assert.deepEqual(await names(folder, { depth: 2 }), ['a', 'b', 'b/c', 'b.txt', 'link'])
  assert.deepEqual(await names(folder, { depth: 10 }), ['a', 'b', 'b/c', 'b/c/x', 'b.txt', 'link'])
  assert.deepEqual(await names(`${folder}/link`, { depth: 10 }), ['c', 'c/x'])
  assert.deepEqual((await sandbox.files.list('list/b/../b')).map((entry) => entry.path), [`${folder}/b/c`])
  assert.match((await failure(sandbox.files.list('list/none'))).constructor.name, /NotFoundError/)
  assert.ok((await failure(sandbox.files.list('list/a'))) instanceof sdk.InvalidArgumentError)
})

test('rename: files, folders, into new folders, over files; what cannot be', async () => {
  await run('mkdir -p ren/full/x && cd ren && echo 1 > one && echo 2 > two')
  assert.equal((await sandbox.files.rename('ren/one', 'ren/new/deep/one')).path, '/home/user/ren/new/deep/one')
  await sandbox.files.rename('ren/two', 'ren/new/deep/one')
  assert.equal(await sandbox.files.read('ren/new/deep/one'), '2\n')
  assert.equal((await sandbox.files.rename('ren/new', 'ren/moved')).type, 'dir')
  assert.match((await failure(sandbox.files.rename('ren/none', 'ren/x'))).constructor.name, /NotFoundError/)
  await failure(sandbox.files.rename('ren/moved', 'ren/full'))
  assert.match((await failure(sandbox.files.rename('ren/moved', '/dev/shm/x'))).message, /another file system/)
  assert.equal(await sandbox.files.exists('ren/moved/deep/one'), true)
})

test('remove: files, whole trees, nothing', async () => {
  await run('mkdir -p rem/a/b rem/c && touch rem/a/b/f rem/f && mkfifo rem/pipe')
  await sandbox.files.remove('rem/f')
  await sandbox.files.remove('rem')
  await sandbox.files.remove('rem')
  assert.equal(await sandbox.files.exists('rem'), false)
  assert.ok((await failure(sandbox.files.remove('/'))) instanceof sdk.InvalidArgumentError)
})

test('names of every legal byte are shown, read and removed', async () => {
  await python(`
import os
os.mkdir(b'bytes')
for byte in range(1, 256):
    if byte != 0x2f:
        with open(b'bytes/n' + bytes([byte]), 'w') as file: file.write(str(byte))
with open(b'bytes/' + b'\\xff\\xc3' * 127, 'w') as file: file.write('long')`)
  const entries = await sandbox.files.list('bytes')
  assert.equal(new Set(entries.map((entry) => entry.path)).size, 255)
  assert.ok(entries.every((entry) => entry.name.isWellFormed?.() ?? true))
  const long = entries.find((entry) => entry.name.length === 254)
  assert.equal(await sandbox.files.read(long.path), 'long')
  for (const byte of [1, 9, 10, 34, 37, 63, 92, 127, 128, 195, 254, 255]) {
    const name = byte < 128 ? `n${String.fromCharCode(byte)}` : `n${String.fromCharCode(0xef00 + byte)}`
    assert.equal(await sandbox.files.read(`bytes/${name}`), String(byte))
    await sandbox.files.rename(`bytes/${name}`, `bytes/m${byte}`)
    assert.equal(await sandbox.files.exists(`bytes/${name}`), false)
  }
  await sandbox.files.remove(long.path)
  assert.equal((await sandbox.files.list('bytes')).length, 254)
  await sandbox.files.remove('bytes')
})

test('special, sparse and huge files are told and not opened', async () => {
  await run('mkdir -p special && cd special && mkfifo pipe && truncate -s 5T sparse && sudo mknod device c 1 3')
  await python("import socket; socket.socket(socket.AF_UNIX).bind('special/socket')")
  assert.deepEqual(await names('/home/user/special'), ['sparse'])  // the SDK leaves out what has no type
  for (const name of ['pipe', 'device', 'socket']) assert.equal(await sandbox.files.exists(`special/${name}`), true)
  assert.equal((await sandbox.files.getInfo('special/sparse')).size, 5 * 2 ** 40)
  assert.equal((await sandbox.files.getInfo('special/device')).permissions, 'Dcrw-r--r--')
  await sandbox.files.remove('special')
  assert.equal(await sandbox.files.exists('special'), false)
})

test('a thousand nested folders, paths longer than PATH_MAX', async () => {
  const deep = `deep${'/seven77'.repeat(1000)}`
  assert.equal(await sandbox.files.makeDir(deep), true)
  assert.equal(await sandbox.files.makeDir(deep), false)
  assert.ok((await sandbox.files.getInfo(deep)).path === `/home/user/${deep}`)
  assert.equal((await sandbox.files.list('deep', { depth: 5000 })).length, 1000)
  await sandbox.files.rename(deep, `${deep}-moved`)
  assert.equal(await sandbox.files.exists(deep), false)
  await sandbox.files.remove('deep')
  assert.equal(await sandbox.files.exists('deep'), false)
  const tooLong = await failure(sandbox.files.makeDir('x'.repeat(300)))
  assert.ok(tooLong instanceof sdk.InvalidArgumentError)
})

test('files that come and go while they are listed disturb nothing', async () => {
  await run('mkdir -p churn && touch churn/zz')
  const churn = await sandbox.commands.run(
    'cd churn && while :; do mkdir -p d{1..20}; touch d{1..20}/f; rm -rf d*; done', { background: true, timeoutMs: 0 })
  for (let i = 0; i < 40; i += 1) assert.equal((await names('/home/user/churn', { depth: 3 })).at(-1), 'zz')
  await churn.kill()
  await sandbox.files.remove('churn')
})

if (newest) test('metadata of a file', async () => {
  await python("import os; open('meta', 'w').close(); os.setxattr('meta', 'user.e2b.author', b'me'); os.setxattr('meta', 'user.other', b'x')")
  assert.deepEqual((await sandbox.files.getInfo('meta')).metadata, { author: 'me' })
  assert.deepEqual((await sandbox.files.list('.')).find((entry) => entry.name === 'meta').metadata, { author: 'me' })
})
