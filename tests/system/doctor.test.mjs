// `space doctor` on the real machine, broken in one way at a time: each row runs the real binary in a mount namespace of
// its own, where something is covered, unmounted or changed that the host never notices, and expects one finding more
// than the same machine whole.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import { after, before, test } from 'node:test'
import { daemon, run, state } from './machine.mjs'

const build = process.env.SPACE_BUILD
const program = `${build}/space`
const pool = `${state}/pool`
const scratch = fs.mkdtempSync('/tmp/space-doctor-')
fs.chmodSync(scratch, 0o755)
after(() => fs.rmSync(scratch, { recursive: true, force: true }))

// Other files of this suite kill daemons, and the log still says so.
const quietLog = `${scratch}/log`
fs.writeFileSync(quietLog, '')

// Runs the doctor where the shell script `breakIt` ran before; `under` is a command that starts it.
async function doctor(breakIt = '', { runFolder = run, flags = ['--json'], env = {}, under = '' } = {}) {
  const words = ['-m', '--propagation', 'private', 'sh', '-ec', `mount --bind ${quietLog} ${state}/space.log\n${breakIt}\nexec ${under} "$@"`, 'sh',
    program, 'doctor', '--state', state, '--run', runFolder, ...flags]
  const child = spawn('unshare', words, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  let out = ''
  let err = ''
  child.stdout.on('data', (data) => (out += data))
  child.stderr.on('data', (data) => (err += data))
  const status = await new Promise((resolve) => child.on('close', resolve))
  if (!flags.includes('--json')) return { status, text: out }
  assert.ok(out.startsWith('['), `the doctor speaks: ${out} ${err}`)
  return { status, findings: JSON.parse(out) }
}
const notGood = ({ findings }) => findings.filter((f) => f.verdict !== 'good')

// A file with other content over `path`.
let covers = 0
function cover(path, content, mode = 0o644) {
  const file = `${scratch}/cover-${covers += 1}`
  fs.writeFileSync(file, content)
  fs.chmodSync(file, mode)
  return `mount --bind ${file} ${path}`
}
const edited = (path, edit) => cover(path, edit(fs.readFileSync(path, 'utf8')))
const qemu = '/usr/bin/qemu-system-x86_64'
const template = () => `${pool}/templates/${fs.readdirSync(`${pool}/templates`)[0]}`

// [what is broken, the check that says so, its verdict, what it saw, how to break it, how the doctor is called]. `how` is
// called when the row runs; what it returns is the shell script. `also`: other checks the same fault cannot but touch.
const rows = [
  ['not root', 'root', 'warning', /not root/, () => '', { under: 'setpriv --reuid=65534 --regid=65534 --clear-groups' }],
  ['an old kernel', 'kernel', 'bad', /4\.9\.0/, () => cover('/proc/sys/kernel/osrelease', '4.9.0-19-amd64\n')],
  ['/dev/kvm is not KVM', 'kvm', 'warning', /something else/, () => 'mount --bind /dev/null /dev/kvm'],
  ['a kernel without btrfs', 'btrfs', 'bad', /no btrfs/, () => edited('/proc/filesystems', (t) => t.replace('\tbtrfs\n', ''))],
  ['no loop devices', 'loop devices', 'bad', /something else/, () => 'mount --bind /dev/null /dev/loop-control'],
  ['no tun', 'tun', 'bad', /something else/, () => 'mount --bind /dev/null /dev/net/tun'],
  ['control groups are not mounted', 'cgroups', 'bad', /no control group hierarchy/, () => 'while umount -R /sys/fs/cgroup 2>/dev/null; do :; done'],
  ['control groups are read-only', 'cgroups', 'bad', /read-only/, () => "awk '$3 ~ /^cgroup/ {print $2}' /proc/self/mounts | while read m; do mount -o remount,bind,ro $m; done"],
  ['network namespaces are forbidden', 'namespaces', 'bad', /at most 0 net/, () => cover('/proc/sys/user/max_net_namespaces', '0\n')],
  ['little memory', 'memory', 'bad', /only 195 MiB/, () => edited('/proc/meminfo', (t) => t.replace(/MemAvailable: .*/, 'MemAvailable: 200000 kB'))],
  ['memory lost to huge pages', 'huge pages', 'warning', /reserved/, () => edited('/proc/meminfo', (t) => t.replace(/MemTotal: .*/, 'MemTotal: 4000000 kB').replace(/HugePages_Total: .*\n/, '') + 'HugePages_Total: 1000\n')],
  ['strict overcommit', 'overcommit', 'warning', /is 2/, () => cover('/proc/sys/vm/overcommit_memory', '2\n')],
  ['few open files', 'open files', 'warning', /only 100/, () => 'ulimit -n 100'],
  ['no entropy', 'entropy', 'warning', /^3 bits/, () => cover('/proc/sys/kernel/random/entropy_avail', '3\n')],
  ['the clock went back', 'clock', 'bad', /was written at 2099/, () => `cp -p ${state}/control/control.db ${scratch}/db; touch -d 2099-01-01 ${scratch}/db; mount --bind ${scratch}/db ${state}/control/control.db`],
  ['QEMU is not a program', 'qemu', 'bad', /not an executable/, () => `mount --bind /dev/null ${qemu}`],
  ['QEMU does not start', 'qemu', 'bad', /does not start/, () => cover(qemu, '#!/bin/false\n', 0o755)],
  ['QEMU is old', 'qemu', 'bad', /7\.2\.1/, () => cover(qemu, otherQemu('7.2.1 (Debian)'), 0o755)],
  ['QEMU without microvm', 'qemu', 'bad', /without the microvm/, () => cover(qemu, otherQemu('10.0.2 (Debian)'), 0o755)],
  ['no mkfs.btrfs', 'pool tools', 'bad', /mkfs\.btrfs/, () => 'mount --bind /dev/null $(readlink -f /sbin/mkfs.btrfs)'],
  ['no mmdebstrap', 'image tools', 'bad', /mmdebstrap/, () => 'mount --bind /dev/null $(readlink -f /usr/bin/mmdebstrap)'],
  ['a daemon is not installed', 'installation', 'bad', /space-daemon/, () => `mount --bind /dev/null ${build}/space-daemon`],
  ["a daemon's user is gone", 'users', 'bad', /no user space-sandboxd/, () => edited('/etc/passwd', (t) => t.replace('space-sandboxd:', 'gone:'))],
  ['a user lives in the range of the VMs', 'uid range', 'bad', /'bob'/, () => edited('/etc/passwd', (t) => `${t}bob:x:200123:1::/:/bin/sh\n`)],
  ['KSM merges the memory of guests', 'KSM', 'bad', /run is 1/, () => cover('/sys/kernel/mm/ksm/run', '1\n')],
  ['swap on a disk', 'swap', 'warning', /\/dev\/nosuch/, () => cover('/proc/swaps', 'Filename Type Size Used Priority\n/dev/nosuch partition 9 0 -2\n')],
  ['BPF for every process', 'unprivileged BPF', 'warning', /is 77/, () => cover('/proc/sys/kernel/unprivileged_bpf_disabled', '77\n')],
  ['a settings file with an unknown key', 'settings file', 'bad', /line 1: unknown setting 'colour'/, () => settings('a.toml', 'colour = 1\n'), { flags: ['--config', `${scratch}/a.toml`] }],
  ['a malformed settings file', 'settings file', 'bad', /line 1/, () => settings('b.toml', 'state = \n'), { flags: ['--config', `${scratch}/b.toml`] }],
  ['a settings file anybody can write', 'settings file', 'bad', /others than root/, () => settings('c.toml', '', 0o666), { flags: ['--config', `${scratch}/c.toml`] }],
  ['the run folder is on a read-only file system', 'file systems', 'bad', /read-only/, () => `mount --rbind ${run} ${run}; mount -o remount,bind,ro ${run}`],
  ['the way to the run folder is closed', 'way to folders', 'bad', /closed to others/, () => { fs.mkdirSync(`${scratch}/closed`, 0o700); return '' }, { runFolder: `${scratch}/closed/run`, also: ['supervisor', 'port'] }],
  ['the path of the run folder is too long', 'run path', 'bad', /at most/, () => '', { runFolder: `/run/${'x'.repeat(60)}`, also: ['supervisor', 'port'] }],
  ['images can be written by anybody', 'images', 'bad', /777/, () => { fs.mkdirSync(`${scratch}/images`); fs.chmodSync(`${scratch}/images`, 0o777); return `mount --bind ${scratch}/images ${state}/images` }],
  ['the database belongs to root', 'space-control files', 'bad', /control\.db belongs to uid 0/, () => cover(`${state}/control/control.db`, '')],
  ['the API key can be read by others', 'API key file', 'bad', /644/, () => cover('$HOME/.config/space/config.json', '{}', 0o644)],
  ['the pool file can be read by others', 'pool file', 'bad', /644/, () => `truncate -s 1G ${scratch}/pool; chmod 644 ${scratch}/pool; mount --bind ${scratch}/pool ${state}/pool.img`],
  ['the pool is not mounted', 'pool mount', 'bad', /not mounted/, () => `umount -l ${pool}`, { also: ['pool device'] }],
  ['something else is mounted over the pool', 'pool mount', 'bad', /tmpfs/, () => `mount -t tmpfs t ${pool}`],
  ['the pool is read-only', 'pool mount', 'bad', /read-only/, () => `mount -o remount,bind,ro ${pool}`],
  ['a template without a kernel', 'template files', 'bad', /vmlinuz is no kernel/, () => `mount --bind /dev/null ${template()}/vmlinuz`],
  ['a template with a cut disk', 'template files', 'bad', /disk\.raw/, () => `mount --bind /dev/null ${template()}/disk.raw`],
  ['a template with a damaged manifest', 'template files', 'bad', /manifest\.json/, () => `mount --bind /dev/null ${template()}/manifest.json`],
  ['nothing is up', 'supervisor', 'bad', /no 'space up'/, () => '', { runFolder: `${scratch}/nowhere`, also: ['port'] }],
  ['a daemon does not run', 'daemons', 'bad', /space-sandboxd/, () => `mount --bind /dev/null /proc/${daemon('space-sandboxd').pid}/cmdline`],
  ['a daemon restarts again and again', 'restarts', 'bad', /3 times/, () => cover(`${state}/space.log`, deaths(3))],
  ['a socket is no socket', 'sockets', 'bad', /is no socket/, () => `mount --bind /dev/null ${run}/noded/noded.sock`],
  ['a process with the uid of a VM belongs to none', 'leftovers', 'bad', /process \d+ \('sleep'\)/, orphan],
  ['another program has the port', 'port', 'bad', /'node' \(process/, () => '', { flags: () => ['--api-url', otherServer], also: ['API'] }],
  ['no API key', 'API key', 'bad', /no API key/, () => '', { env: { HOME: '/nonexistent', SPACE_API_KEY: '', E2B_API_KEY: '' } }],
  ['a wrong API key', 'API', 'bad', /key/, () => '', { env: { SPACE_API_KEY: `e2b_${'0'.repeat(40)}` } }],
  ['the API is away', 'API', 'bad', /./, () => '', { flags: ['--api-url', 'http://127.0.0.1:9'] }],
]

const otherQemu = (version) => `#!/bin/sh\ncase "$1" in --version) echo "QEMU emulator version ${version}";; *) echo "pc  Standard PC";; esac\n`
const deaths = (count) => `${JSON.stringify({ ts: new Date().toISOString(), event: 'daemon died', daemon: 'space-control' })}\n`.repeat(count)
function settings(name, text, mode = 0o644) {
  fs.writeFileSync(`${scratch}/${name}`, text)
  fs.chmodSync(`${scratch}/${name}`, mode)
  return ''
}
let lost
function orphan() {
  lost = spawn('setpriv', ['--reuid=200123', '--clear-groups', 'sleep', '600'], { stdio: 'ignore' })
  return `until grep -q sleep /proc/${lost.pid}/comm; do sleep 0.02; done`
}

let otherServer
let server
before(async () => {
  server = http.createServer((request, response) => response.end('"hello"')).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  otherServer = `http://127.0.0.1:${server.address().port}`
})
after(() => { server.close(); server.closeAllConnections() })

let whole
test('the machine and this instance are sound before they are broken: nothing is bad', async () => {
  whole = await doctor()
  assert.deepEqual(whole.findings.filter((f) => f.verdict === 'bad'), [])
  assert.equal(whole.status, 0)
  // What a sound test machine may lack: KVM (then it says so), and room when others work on it.
  // How hard its host is, is not this suite's to say; only that none of it is bad.
  const others = notGood(whole).filter((f) => f.section !== 'Hardening')
  assert.deepEqual(others.map((f) => f.check).filter((check) => !['kvm', 'pool promise', 'uid range'].includes(check)), [])
  assert.ok(rows.length >= 28)
})

for (const [name, check, verdict, seen, how, { also = [], flags = [], ...call } = {}] of rows) {
  test(`doctor: ${name}`, async () => {
    try {
      const broken = await doctor(how(), { ...call, flags: ['--json', ...(typeof flags === 'function' ? flags() : flags)] })
      const same = (a) => (b) => a.check === b.check && a.seen === b.seen
      const fresh = notGood(broken).filter((f) => !notGood(whole).some(same(f)) && !(f.check === 'pool promise'))
      assert.deepEqual(fresh.map((f) => f.check).sort(), [check, ...also].sort(), JSON.stringify(fresh))
      const finding = fresh.find((f) => f.check === check)
      assert.equal(finding.verdict, verdict)
      assert.match(finding.seen, seen)
      assert.ok(finding.means && finding.advice, 'it says what it means and what to do')
      assert.equal(broken.status, fresh.some((f) => f.verdict === 'bad') ? 1 : 0)
    } finally {
      lost?.kill('SIGKILL')
    }
  })
}

test('the same machine is as sound after all of it', async () => {
  const { findings } = await doctor()
  assert.deepEqual(findings.filter((f) => f.verdict === 'bad'), [])
})

test('people read it by sections, with a count at the end', async () => {
  const { text } = await doctor('', { flags: [] })
  for (const section of ['Kernel', 'Resources', 'Software', 'Hardening', 'Folders', 'Pool', 'Platform', 'API']) assert.match(text, new RegExp(`^${section}$`, 'm'))
  assert.match(text, /\n\d+ good, \d+ warnings, 0 bad\n$/)
})
