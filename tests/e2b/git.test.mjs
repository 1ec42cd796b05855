// Every verb of the SDK's git module, against a bare repository in the same guest.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { failure, Sandbox, sdk } from './sdk.mjs'

let sandbox, git
const work = '/home/user/work', origin = '/home/user/origin.git'
const shell = async (command) => (await sandbox.commands.run(command)).stdout
before(async () => {
  sandbox = await Sandbox.create({ timeoutMs: 900_000 })
  git = sandbox.git
  await shell(`rm -rf ${work} ${origin} ~/clone ~/.gitconfig`)
})
after(async () => { await sandbox?.kill() })

test('init, configureUser, add, commit and status', async () => {
  await git.init(origin, { bare: true, initialBranch: 'main' })
  await git.init(work, { initialBranch: 'main' })
  await git.configureUser('A. Gent', 'agent@example.com')
  await sandbox.files.write(`${work}/one.txt`, 'one\n')
  await sandbox.files.write(`${work}/two words.txt`, 'two\n')
  assert.deepEqual([(await git.status(work)).untrackedCount, (await git.status(work)).isClean], [2, false])
  await git.add(work, { files: ['one.txt'] })
  const staged = await git.status(work)
  assert.deepEqual([staged.stagedCount, staged.untrackedCount, staged.hasStaged], [1, 1, true])
  await git.add(work)
  await git.commit(work, "it's the \"first\" $COMMIT")
  const clean = await git.status(work)
  assert.deepEqual([clean.isClean, clean.currentBranch], [true, 'main'])
  assert.equal(await shell(`git -C ${work} log --format='%an %ae %s'`), 'A. Gent agent@example.com it\'s the "first" $COMMIT\n')
})

test('branches: create, list, checkout, delete', async () => {
  await git.createBranch(work, 'feature')
  assert.equal((await git.branches(work)).currentBranch, 'feature')
  await git.checkoutBranch(work, 'main')
  const { branches, currentBranch } = await git.branches(work)
  assert.deepEqual([branches.sort(), currentBranch], [['feature', 'main'], 'main'])
  await git.deleteBranch(work, 'feature')
  assert.deepEqual((await git.branches(work)).branches, ['main'])
})

test('remotes, push, clone and pull', async () => {
  await git.remoteAdd(work, 'origin', origin)
  assert.equal(await git.remoteGet(work, 'origin'), origin)
  assert.equal(await git.remoteGet(work, 'nowhere'), undefined)
  await git.push(work, { remote: 'origin', branch: 'main', setUpstream: true })
  await git.clone(origin, { path: '/home/user/clone' })
  assert.equal(await sandbox.files.read('/home/user/clone/two words.txt'), 'two\n')
  await sandbox.files.write(`${work}/one.txt`, 'changed\n')
  await git.add(work)
  await git.commit(work, 'second', { authorName: 'Other', authorEmail: 'other@example.com' })
  assert.equal((await git.status(work)).ahead, 1)
  await git.push(work)
  await git.pull('/home/user/clone')
  assert.equal(await sandbox.files.read('/home/user/clone/one.txt'), 'changed\n')
})

test('reset and restore', async () => {
  await sandbox.files.write(`${work}/one.txt`, 'unwanted\n')
  await git.add(work)
  await git.reset(work, { paths: ['one.txt'] })
  assert.equal((await git.status(work)).stagedCount, 0)
  await git.restore(work, { paths: ['one.txt'] })
  assert.equal(await sandbox.files.read(`${work}/one.txt`), 'changed\n')
  await git.reset(work, { mode: 'hard', target: 'HEAD~1' })
  assert.equal(await sandbox.files.read(`${work}/one.txt`), 'one\n')
  assert.equal((await git.status(work)).behind, 1)
})

test('configuration and stored credentials', async () => {
  await git.setConfig('space.mark', 'a value', { scope: 'local', path: work })
  assert.equal(await git.getConfig('space.mark', { scope: 'local', path: work }), 'a value')
  assert.equal(await git.getConfig('space.none', { scope: 'local', path: work }), undefined)
  await git.dangerouslyAuthenticate({ username: 'me', password: 'pass', host: 'git.example.com' })
  assert.match(await shell("printf 'protocol=https\\nhost=git.example.com\\n\\n' | git credential fill"), /password=pass/)
})

test('mistakes arrive as errors with git\'s own words', async () => {
  const error = await failure(git.clone('/home/user/no-such-repository', { path: '/home/user/none' }))
  assert.ok(error instanceof Error)
  assert.match(`${error.message} ${error.stderr ?? ''}`, /no-such-repository/)
  assert.ok(await failure(git.commit(work, 'nothing')) instanceof sdk.CommandExitError)
})
