// As much of DNS as the tests' name server needs. Pure.
//
// A zone: {"name": {A: ["1.2.3.4"], AAAA: [], CNAME: "other", TXT: ["text"], HTTPS: hex of its rdata, ttl: 60}}. `A` may be a
// list of lists: each query gets the next one (a name that changes its mind). "*.name" answers for what is below.

const types = { 1: 'A', 5: 'CNAME', 15: 'MX', 16: 'TXT', 28: 'AAAA', 64: 'SVCB', 65: 'HTTPS' }
const codes = Object.fromEntries(Object.entries(types).map(([code, name]) => [name, Number(code)]))

export function encodeName(name) {
  return Buffer.concat([...name.split('.').filter(Boolean).map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, 'latin1')])), Buffer.from([0])])
}

function readName(message, at) {
  const labels = []
  while (message[at] !== 0) {
    labels.push(message.subarray(at + 1, at + 1 + message[at]).toString('latin1'))
    at += 1 + message[at]
  }
  return { name: labels.join('.'), end: at + 1 }
}

function addressBytes(address) {
  if (!address.includes(':')) return Buffer.from(address.split('.').map(Number))
  const [head, tail] = address.split('::')
  const words = (text) => (text ? text.split(':') : []).flatMap((word) =>
    word.includes('.') ? word.split('.').map(Number).reduce((pairs, byte, i, all) => (i % 2 ? [...pairs, (all[i - 1] << 8) | byte] : pairs), []) : [Number.parseInt(word, 16)])
  const [first, last] = [words(head), words(tail)]
  const all = tail === undefined ? first : [...first, ...Array(8 - first.length - last.length).fill(0), ...last]
  return Buffer.from(all.flatMap((word) => [word >> 8, word & 255]))
}

function rdata(type, value) {
  if (type === 'A' || type === 'AAAA') return addressBytes(value)
  if (type === 'CNAME') return encodeName(value)
  if (type === 'TXT') return Buffer.concat([Buffer.from([value.length]), Buffer.from(value, 'latin1')])
  return Buffer.from(value, 'hex')
}

function record(name, type, ttl, value) {
  const data = rdata(type, value)
  const fixed = Buffer.alloc(10)
  fixed.writeUInt16BE(codes[type], 0)
  fixed.writeUInt16BE(1, 2)
  fixed.writeUInt32BE(ttl, 4)
  fixed.writeUInt16BE(data.length, 8)
  return Buffer.concat([encodeName(name), fixed, data])
}

const find = (zone, name) => {
  if (zone[name]) return zone[name]
  for (let at = name.indexOf('.'); at >= 0; at = name.indexOf('.', at + 1)) if (zone[`*${name.slice(at)}`]) return zone[`*${name.slice(at)}`]
  return undefined
}

const turns = new Map()
function values(name, type, entry) {
  const all = entry[type] === undefined ? [] : Array.isArray(entry[type]) ? entry[type] : [entry[type]]
  if (!all.some(Array.isArray)) return all
  const turn = turns.get(name) ?? 0
  turns.set(name, turn + 1)
  return all[Math.min(turn, all.length - 1)]
}

// The answer to a query, which `note` is told; nothing for what is no query.
export function answerQuery(message, zone, note) {
  if (message.length < 17 || message[2] & 0x80) return undefined
  const { name: asked, end } = readName(message, 12)
  const type = types[message.readUInt16BE(end)] ?? `TYPE${message.readUInt16BE(end)}`
  note({ name: asked.toLowerCase(), type })
  const answers = []
  let name = asked.toLowerCase(), entry = find(zone, name)
  for (let hop = 0; entry?.CNAME && hop < 12; ++hop) {
    answers.push(record(name, 'CNAME', entry.ttl ?? 60, entry.CNAME))
    name = entry.CNAME
    entry = find(zone, name)
  }
  if (entry && codes[type] && type !== 'CNAME') for (const value of values(name, type, entry)) answers.push(record(name, type, entry.ttl ?? 60, value))
  const head = Buffer.alloc(12)
  message.copy(head, 0, 0, 2)
  head.writeUInt16BE(0x8180 | (entry || answers.length ? 0 : 3), 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(answers.length, 6)
  return Buffer.concat([head, message.subarray(12, end + 4), ...answers])
}
