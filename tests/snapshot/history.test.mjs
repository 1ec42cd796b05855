// What is told of a sandbox's past: the tree of a whole session, and chains of which a middle goes.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, test } from 'node:test'
import { quietTable, settled } from '../system/machine.mjs'
import { Branches, put, word } from './branches.mjs'
import { inFresh } from './sandboxes.mjs'

const here = new Branches()
let table
before(async () => { table = await quietTable() })
after(async () => { await settled(table) })

const drawn = (sandbox, locale) => execFileSync(`${process.env.SPACE_BUILD}/space`, ['history', sandbox.sandboxId], { encoding: 'utf8', env: { ...process.env, LC_ALL: locale } })
// The line of a snapshot, and how deep it is.
const lineOf = (tree, number) => tree.split('\n').find((line) => new RegExp(`─ ${number}  (full|disk)  `).test(line))
const depthOf = (line) => line.indexOf('─')

test('a session with forks, a rollback and its undo is a tree', () => inFresh(async (sandbox) => {
  const start = await here.snapshot(sandbox, { name: 'the-start' })
  await put(sandbox, 'one')
  const disk = await here.snapshot(sandbox, { kind: 'disk' })
  await here.withChildren(sandbox, { count: 2 }, async (children) => {
    const rolled = await here.rollback(sandbox, start.number)
    const other = await here.snapshot(sandbox, { name: 'other-way' })
    let tree = drawn(sandbox, 'C.UTF-8')
    console.log(tree.replace(/^/gm, '# '))
    assert.ok(tree.startsWith(sandbox.sandboxId))
    assert.ok(tree.trimEnd().endsWith('└─ now'))
    assert.match(lineOf(tree, start.number), /asked .*"the-start"/)
    assert.equal(depthOf(lineOf(tree, start.number)), depthOf(lineOf(tree, other.number)), 'it goes on from the start')
    for (const { number } of [disk, { number: rolled.undo }]) assert.ok(depthOf(lineOf(tree, number)) > depthOf(lineOf(tree, start.number)), `${number} is on a branch`)
    assert.match(lineOf(tree, rolled.undo), /before rollback/)
    for (const child of children) assert.match(tree, new RegExp(`fork ${child.sandboxId}`))
    assert.match(tree, new RegExp(`went back to .*\\b${start.number}\\b`))

    await here.undo(sandbox)
    tree = drawn(sandbox, 'C.UTF-8')
    console.log(tree.replace(/^/gm, '# '))
    assert.equal(depthOf(lineOf(tree, start.number)), depthOf(lineOf(tree, disk.number)), 'the first way is the one again')
    assert.ok(depthOf(lineOf(tree, other.number)) > depthOf(lineOf(tree, start.number)))
    assert.equal(tree.match(/went back to/g).length, 2)
    assert.match(drawn(sandbox, 'C'), /^`-- now$/m)
    assert.ok(![...drawn(sandbox, 'C')].some((c) => c > '~'))
    for (const child of children) assert.match(drawn(child, 'C.UTF-8'), new RegExp(`began as snapshot \\d+ of ${sandbox.sandboxId}`))
    const { head, snapshots } = await here.history(sandbox)
    const parents = new Map(snapshots.map((one) => [one.number, one.parent]))
    const lineage = []
    for (let at = head; at; at = parents.get(at)) lineage.push(at)
    assert.deepEqual(new Set(lineage), new Set(snapshots.filter((one) => one.onLineage).map((one) => one.number)))
    assert.ok(lineage.includes(start.number) && lineage.includes(disk.number) && !lineage.includes(other.number))
  })
}))

test('the middle of a chain goes: what continued it continues its parent, and can be read', () => inFresh(async (sandbox) => {
  const chain = []
  for (let i = 1; i <= 5; ++i) {
    await put(sandbox, `step-${i}`)
    await put(sandbox, `step-${i}`, '/home/user/word')
    chain.push(await here.snapshot(sandbox, { kind: i % 2 ? 'full' : 'disk' }))
  }
  const numbers = chain.map((one) => one.number)
  for (const i of [1, 2]) await here.ask('DELETE', sandbox, `/snapshots/${numbers[i]}`)
  const left = await here.snapshots(sandbox)
  assert.deepEqual(left.map((one) => [one.number, one.parent]), [[numbers[0], null], [numbers[3], numbers[0]], [numbers[4], numbers[3]]])
  for (const [i, memory] of [[0, 'step-1'], [3, 'none'], [4, 'step-5']])
    await here.withChildren(sandbox, { snapshot: numbers[i] }, async ([child]) => assert.deepEqual([await word(child), await word(child, '/home/user/word')], [memory, `step-${i + 1}`]))
  assert.equal((await here.call('DELETE', sandbox, `/snapshots/${numbers[1]}`)).status, 404)
  const { events } = await here.history(sandbox)
  assert.deepEqual(events.filter((event) => event.kind === 'snapshot_removed').map((event) => event.number).sort(), [numbers[1], numbers[2]].sort())
}))

test('names and pins: set, shown, taken away; what is no name is refused', () => inFresh(async (sandbox) => {
  const { number } = await here.snapshot(sandbox, { kind: 'disk' })
  const named = await here.ask('PATCH', sandbox, `/snapshots/${number}`, { name: 'good-one', pinned: true })
  assert.deepEqual([named.name, named.pinned], ['good-one', true])
  assert.match(drawn(sandbox, 'C.UTF-8'), /"good-one"  pinned/)
  for (const name of ['a\u001b[2Jb', 'two words', '', 'x'.repeat(65)]) assert.equal((await here.call('PATCH', sandbox, `/snapshots/${number}`, { name })).status, 400, name)
  const bare = await here.ask('PATCH', sandbox, `/snapshots/${number}`, { name: null, pinned: false })
  assert.deepEqual([bare.name, bare.pinned], [null, false])
}))
