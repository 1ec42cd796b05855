// Commands at their edges: what stays behind, what hangs, what cannot be killed. In a VM, and against the daemon alone.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { CommandExitError, daemonOnly, failure, newest, Sandbox, sdk, TimeoutError, until } from './sdk.mjs'

let sandbox, run
before(async () => {
  sandbox = await Sandbox.create({ timeoutMs: 900_000 })
  run = (command, options) => sandbox.commands.run(command, options)
})
after(async () => { await sandbox?.kill() })

const background = (command, options = {}) => run(command, { background: true, timeoutMs: 0, ...options })
const alive = async (pattern) => (await run(`pgrep -fx '${pattern}' || true`)).stdout !== ''

test('a command returns although it left a process behind that holds its outputs, and that one lives', async () => {
  const result = await run("sh -c 'sleep 610 & echo hi'", { timeoutMs: 0 })
  assert.deepEqual([result.stdout, result.exitCode], ['hi\n', 0])
  assert.ok(await alive('sleep 610'))
  await run('pkill -fx "sleep 610"')
})

test('what is left behind may write on: more than a pipe holds, and it is neither stopped nor killed', async () => {
  const result = await run('(sleep 1; head -c 400000 /dev/zero && touch /tmp/wrote-on) & echo hi', { timeoutMs: 0 })
  assert.equal(result.stdout, 'hi\n')
  await until(async () => (await run('ls /tmp/wrote-on 2>/dev/null || true')).stdout !== '', 'it wrote all of it')
})

test('a process left behind that never stops writing does not hold the command', async () => {
  const result = await run('yes > /dev/stderr & echo $!', { timeoutMs: 0 })
  assert.match(result.stdout, /^\d+\n$/)
  assert.equal((await run('echo still here')).stdout, 'still here\n')
  await run(`kill -9 ${result.stdout}`)
})

test('a session of its own, output to a file: the usual way to leave a server behind', async () => {
  await run('nohup setsid python3 -m http.server 8171 --bind 127.0.0.1 >/tmp/server.log 2>&1 &', { timeoutMs: 0 })
  await until(async () => (await run('curl -s -o /dev/null -w "%{http_code}" http://127.0.0.1:8171/ || true')).stdout === '200', 'the server answers')
  await run('pkill -f "http.server 8171"')
})

test('T47: commands that hang, stand still or do not read their input keep no other waiting', async () => {
  const hung = await background('sleep 611')
  const stopped = await background('kill -STOP $$; echo never')
  const deaf = await background('sleep 612', { stdin: true })
  const flooding = sandbox.commands.sendStdin(deaf.pid, 'x'.repeat(200_000)).catch((error) => error)  // a pipe holds 64 KiB
  for (let i = 0; i < 5; i += 1) assert.equal((await run(`echo ${i}`)).stdout, `${i}\n`)
  for (const handle of [hung, stopped, deaf]) assert.equal(await handle.kill(), true)
  for (const handle of [hung, stopped, deaf]) assert.ok(await failure(handle.wait()) instanceof CommandExitError)
  assert.ok(await flooding instanceof Error)
})

test('a command that ignores TERM ends by its timeout and by kill', async () => {
  const stubborn = 'trap "" TERM INT HUP; while :; do sleep 0.2; done'
  assert.ok(await failure(run(stubborn, { timeoutMs: 1_500 })) instanceof TimeoutError)
  const handle = await background(stubborn.replace('; while', '; touch /tmp/stubborn; while'))
  await run(`until [ -e /tmp/stubborn ]; do sleep 0.1; done; kill -TERM ${handle.pid}; sleep 0.5`)
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === handle.pid))
  assert.equal(await handle.kill(), true)
  const error = await failure(handle.wait())
  assert.deepEqual([error.exitCode, error.error], [-1, 'signal: killed'])
})

test('T49: a program that looks for a terminal finds none, and the end of its input', async () => {
  const look = 'import os,sys; print([os.isatty(fd) for fd in range(3)], repr(sys.stdin.read()), os.readlink("/proc/self/fd/0"))'
  assert.equal((await run(`python3 -c '${look.replaceAll("'", '"')}'`)).stdout, "[False, False, False] '' /dev/null\n")
})

test('exit codes from 0 to 255', async () => {
  for (const code of [1, 2, 126, 127, 128, 255]) {
    const error = await failure(run(`exit ${code}`))
    assert.deepEqual([error.exitCode, error.error], [code, `exit status ${code}`])
  }
})

test('the list says how a command was started', async () => {
  const handle = await background('sleep 613', { cwd: '/tmp', envs: { MARK: 'of the list' } })
  const listed = (await sandbox.commands.list()).find((p) => p.pid === handle.pid)
  assert.deepEqual([listed.cmd, listed.args, listed.cwd, listed.envs.MARK], ['/bin/bash', ['-l', '-c', 'sleep 613'], '/tmp', 'of the list'])
  await handle.kill()
  await failure(handle.wait())
  assert.ok(!(await sandbox.commands.list()).some((p) => p.pid === handle.pid))
})

test('every handle of a command hears the same from when it attached, and the end once', async () => {
  const first = await background('read x; echo "out $x"; echo "err $x" >&2; exit 9', { stdin: true })
  const heard = []
  const second = await sandbox.commands.connect(first.pid, { onStdout: (text) => heard.push(text), onStderr: (text) => heard.push(text) })
  await sandbox.commands.sendStdin(first.pid, 'now\n')
  for (const handle of [first, second]) {
    const error = await failure(handle.wait())
    assert.deepEqual([error.exitCode, error.stdout, error.stderr], [9, 'out now\n', 'err now\n'])
    assert.equal(handle.exitCode, 9)
  }
  assert.deepEqual(heard.sort(), ['err now\n', 'out now\n'])
})

test("a timeout of connect ends the handle, not the command", async () => {
  const handle = await background('sleep 614')
  const second = await sandbox.commands.connect(handle.pid, { timeoutMs: 1_000 })
  assert.ok(await failure(second.wait()) instanceof TimeoutError)
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === handle.pid))
  assert.equal(await sandbox.commands.kill(handle.pid), true)
})

test('connecting to and feeding what is not there says so', async () => {
  assert.ok(await failure(sandbox.commands.connect(4_000_000)) instanceof sdk.NotFoundError)
  assert.match((await failure(sandbox.commands.sendStdin(4_000_000, 'x'))).message, /process with pid 4000000 not found/)
  const handle = await background('sleep 615')
  assert.match((await failure(sandbox.commands.sendStdin(handle.pid, 'x'))).message, /stdin/)
  await handle.kill()
})

if (newest) {
  test('a megabyte of input, any bytes, arrives whole; its end is seen once', async () => {
    const handle = await background('sha256sum', { stdin: true })
    const bytes = Uint8Array.from({ length: 1 << 20 }, (_, i) => (i * 31 + (i >> 8)) & 255)
    for (let at = 0; at < bytes.length; at += 1 << 18) await handle.sendStdin(bytes.subarray(at, at + (1 << 18)))
    await handle.closeStdin()
    await handle.closeStdin().catch((error) => assert.ok(error instanceof sdk.NotFoundError))  // it may have ended
    const { createHash } = await import('node:crypto')
    assert.equal((await handle.wait()).stdout, `${createHash('sha256').update(bytes).digest('hex')}  -\n`)
  })
}

test('environments: of each user, unusual values, and users made a moment ago', async () => {
  const show = 'echo $HOME:$USER:$LOGNAME:$(pwd)'
  assert.equal((await run(show)).stdout, '/home/user:user:user:/home/user\n')
  assert.equal((await run(show, { user: 'root', cwd: '~' })).stdout, '/root:root:root:/root\n')
  await run('id -u mate >/dev/null 2>&1 || useradd --create-home --groups sudo mate', { user: 'root' })
  assert.equal((await run('echo $USER; cd; pwd; id -Gn', { user: 'mate' })).stdout, 'mate\n/home/mate\nmate sudo\n')
  const odd = { A_EMPTY: '', A_LINES: 'one\ntwo', A_EQUALS: 'a=b=c', A_QUOTES: `'"$HOME"'`, A_UNICODE: 'żółć 🙂' }
  const out = await run("python3 -c 'import os,json; print(json.dumps({k:v for k,v in os.environ.items() if k.startswith(\"A_\")}))'", { envs: odd })
  assert.deepEqual(JSON.parse(out.stdout), odd)
})

test('no descriptor, no signal mask and no ignored signal of the daemon is inherited', async () => {
  const { stdout } = await run('exec python3 -c \'import os; print(sorted(os.listdir("/proc/self/fd"))[:4]); print([l.strip() for l in open("/proc/self/status") if l[:6] in ("SigBlk","SigIgn")])\'')
  const [descriptors, masks] = stdout.split('\n')
  assert.equal(descriptors, "['0', '1', '2', '3']")  // 3 is the folder being read
  assert.match(masks, /SigBlk:\\t0{16}/)
  assert.match(masks, /SigIgn:\\t0000000001001000/)  // Python's own: SIGPIPE, SIGXFSZ
})

if (!daemonOnly) {
  test('while no program can start, everything else goes on', async () => {
    // Programs start in the frozen group and stand still before their first instruction, as on a file system that hangs.
    const freezer = 'echo $$ > /sys/fs/cgroup/cgroup.procs; echo 1 > /sys/fs/cgroup/user/cgroup.freeze; sleep 4; echo 0 > /sys/fs/cgroup/user/cgroup.freeze'
    const before = await background('sleep 616')
    const handle = await background(freezer, { user: 'root' })
    await until(async () => (await sandbox.files.read('/sys/fs/cgroup/user/cgroup.events')).includes('frozen 1'), 'the group stands still')
    const waiting = Array.from({ length: 10 }, (_, i) => run(`echo ${i}`))
    assert.equal(await sandbox.isRunning(), true)
    assert.ok((await sandbox.commands.list()).some((p) => p.pid === before.pid))
    await sandbox.files.write('/tmp/meanwhile', 'written')
    assert.equal(await sandbox.files.read('/tmp/meanwhile'), 'written')
    assert.ok((await sandbox.files.read('/sys/fs/cgroup/user/cgroup.events')).includes('frozen 1'), 'all that happened meanwhile')
    for (const [i, result] of (await Promise.all(waiting)).entries()) assert.equal(result.stdout, `${i}\n`)
    assert.equal((await handle.wait()).exitCode, 0)
    await before.kill()
  })
}
