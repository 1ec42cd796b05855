// The guides of docs/, executed. Every guide there is in README.md's table and is run by this file.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, test } from 'node:test'
import { parse, Reader } from './guide.mjs'

const docs = `${import.meta.dirname}/../../docs`
const guide = process.env.GUIDE

test(`${guide}: every block can be run, and the index knows it`, () => {
  const { blocks, problems } = parse(fs.readFileSync(`${docs}/${guide}`, 'utf8'))
  assert.deepEqual(problems, [])
  assert.ok(blocks.length > 5)
  assert.ok(fs.readFileSync(`${docs}/README.md`, 'utf8').includes(`(${guide})`))
})

const folder = fs.mkdtempSync('/tmp/space-docs-')
const reader = new Reader(folder, process.env)
after(async () => {
  await reader.close()
  fs.rmSync(folder, { recursive: true })
})

for (const block of parse(fs.readFileSync(`${docs}/${guide}`, 'utf8')).blocks) {
  const first = block.code.split('\n').find((line) => line && !line.startsWith('#')) ?? ''
  test(`${guide} line ${block.line}: ${first.replaceAll('#', '').trim()}`, async () => {
    assert.deepEqual(await reader.run(block), [])
  })
}
