// `space cp` between this machine and virtual machines.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { apiUrl, until } from '../e2b/sdk.mjs'
import { output, space, start, terminal } from './cli.mjs'
import { Wire } from './wire.mjs'

let one, two, folder
const inside = (id, command) => output('exec', '--no-stdin', id, '--', 'sh', '-ec', command)
const digest = (data) => createHash('sha256').update(data).digest('hex')

before(() => {
  one = output('create').trim()
  two = output('create').trim()
  folder = fs.mkdtempSync('/tmp/space-cp-')
})
after(() => {
  space(['kill', one, two])
  fs.rmSync(folder, { recursive: true, force: true })
})

function makeTree(root) {
  fs.mkdirSync(`${root}/deep/er`, { recursive: true })
  fs.writeFileSync(`${root}/run.sh`, '#!/bin/sh\necho ran\n', { mode: 0o755 })
  fs.writeFileSync(`${root}/deep/er/with space & ünïcode`, 'odd name')
  fs.writeFileSync(`${root}/deep/empty`, '')
  fs.writeFileSync(`${root}/big`, randomBytes(3 * 1024 * 1024))
  fs.symlinkSync('deep/er', `${root}/link`)
  for (let i = 0; i < 20; ++i) fs.writeFileSync(`${root}/deep/${i}`, `number ${i}`)
}

test('a folder up, across and down is the same, modes and links too', () => {
  const source = `${folder}/tree`
  makeTree(source)
  output('cp', source, `${one}:`)
  assert.equal(inside(one, '~/tree/run.sh; cat ~/tree/link/with*; readlink ~/tree/link; stat -c %U ~/tree/big'), 'ran\nodd namedeep/er\nuser\n')
  output('cp', `${one}:tree/.`, `${two}:/home/user/copy/`)
  const report = JSON.parse(output('cp', '--json', `${two}:/home/user/copy`, `${folder}/back`))
  assert.deepEqual([report.files, report.folders, report.links, report.left_out], [24, 3, 1, []])
  assert.equal(fs.readlinkSync(`${folder}/back/link`), 'deep/er')
  assert.equal(fs.statSync(`${folder}/back/run.sh`).mode & 0o777, 0o755)
  for (const name of ['big', 'deep/7', 'deep/empty', 'deep/er/with space & ünïcode'])
    assert.ok(fs.readFileSync(`${folder}/back/${name}`).equals(fs.readFileSync(`${source}/${name}`)), name)
})

test('files: several into a folder, onto a name, from procfs; a slash makes a folder', () => {
  fs.writeFileSync(`${folder}/a`, 'A')
  fs.writeFileSync(`${folder}/b`, 'B')
  output('cp', `${folder}/a`, `${folder}/b`, `${one}:/tmp/made/`)
  assert.equal(inside(one, 'cat /tmp/made/a /tmp/made/b'), 'AB')
  output('cp', `${folder}/b`, `${one}:/tmp/made/a`)
  output('cp', `${one}:/tmp/made/a`, `${one}:/proc/version`, folder)
  assert.equal(fs.readFileSync(`${folder}/a`, 'utf8'), 'B')
  assert.match(fs.readFileSync(`${folder}/version`, 'utf8'), /^Linux version .*\n$/)
})

test('errors say what is wrong', () => {
  const fails = (args, words) => { const { status, stderr } = space(['cp', ...args]); assert.ok(status > 0); assert.match(stderr, words) }
  fails([`${one}:/none`, folder], /\/none does not exist/)
  fails([`${folder}/none`, `${one}:`], /none does not exist/)
  fails([`${one}:/etc/hostname`, `${folder}/no/such/place`], /mkdir -p/)
  fails([`${folder}/a`, `${folder}/c`], /one must be a sandbox/)
  fails([`${folder}/a`, `${one}:/etc/hostname/`], /is no folder/)
  fails([`${folder}/tree`, `${one}:/etc/hostname`], /exists and is no folder/)
  fails([`${folder}/a`, `${folder}/b`, `${one}:/tmp/not-there`], /end it with \//)
  fails([`${folder}/a`, 'i0123456789012345678:/x'], /space ls|did you mean/)
  output('exec', '-u', 'root', one, '--', 'sh', '-ec', 'mkdir /tmp/small; mount -t tmpfs -o size=1m,mode=777 tmpfs /tmp/small')
  fails([`${folder}/tree/big`, `${one}:/tmp/small/big`], /space/)
})

test('a transfer whose client is killed goes on where it stopped, both ways', async () => {
  const size = 24 * 1024 * 1024
  const data = randomBytes(size)
  fs.writeFileSync(`${folder}/large`, data)
  const wire = await Wire.to(apiUrl)
  const interrupted = async (args) => {
    wire.stalled = false
    const copy = start(['cp', ...args], { SPACE_API_URL: wire.url })
    await until(() => wire.stalled, 'the transfer is half done')
    await copy.stop('SIGKILL')
    wire.cut()
  }
  wire.upMax = size / 2
  await interrupted([`${folder}/large`, `${one}:/tmp/large`])
  assert.equal(inside(one, 'test ! -e /tmp/large && echo none'), 'none\n')
  const up = JSON.parse(output('cp', '--resume', '--json', `${folder}/large`, `${one}:/tmp/large`))
  assert.ok(up.kept_bytes > size / 4 && up.kept_bytes < size, `kept ${up.kept_bytes}`)
  assert.ok(inside(one, 'sha256sum /tmp/large; ls -A /tmp').startsWith(digest(data)))
  assert.ok(!inside(one, 'ls -A /tmp').includes('space-part'))

  wire.upMax = Infinity
  wire.downMax = size / 2
  await interrupted([`${one}:/tmp/large`, `${folder}/down`])
  assert.ok(!fs.existsSync(`${folder}/down`))
  const down = JSON.parse(output('cp', '--resume', '--json', `${one}:/tmp/large`, `${folder}/down`))
  assert.ok(down.kept_bytes > size / 4 && down.kept_bytes < size, `kept ${down.kept_bytes}`)
  assert.equal(digest(fs.readFileSync(`${folder}/down`)), digest(data))
  const again = JSON.parse(output('cp', '--resume', '--json', `${one}:/tmp/large`, `${folder}/down`))
  assert.equal(again.kept_bytes, size)
  await wire.close()
})

test('a terminal shows progress, a pipe does not', async () => {
  const shown = terminal(['cp', `${folder}/large`, `${one}:/tmp/again`])
  assert.equal(await shown.ended, 0)
  assert.match(shown.text, /\d+% .*24.0 MiB .*\/s/)
  assert.match(shown.text, /copied 1 file \(24.0 MiB\)/)
  const quiet = space(['cp', `${folder}/a`, `${one}:/tmp/again`])
  assert.deepEqual([quiet.stdout, quiet.stderr], ['', ''])
})
