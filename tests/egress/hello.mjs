// ClientHello messages byte by byte, for what no TLS library would send. Pure; results are hex.
const u16 = (value) => Buffer.from([value >> 8, value & 255])
const sized16 = (...parts) => { const body = Buffer.concat(parts); return Buffer.concat([u16(body.length), body]) }
const extension = (type, ...parts) => Buffer.concat([u16(type), sized16(...parts)])
const hostName = (bytes) => Buffer.concat([Buffer.from([0]), sized16(bytes)])

// `names`: the server names, as text or bytes; none: no extension. `padding`: bytes of an extension nobody knows.
export function clientHello({ names = [], ech = false, padding = 0, records = 1 } = {}) {
  const extensions = [
    ...(names.length ? [extension(0, sized16(...names.map((name) => hostName(Buffer.from(name, 'latin1')))))] : []),
    extension(10, sized16(u16(23), u16(24), u16(29))),
    extension(11, Buffer.from([1, 0])),
    extension(13, sized16(u16(0x0403), u16(0x0804), u16(0x0401), u16(0x0503), u16(0x0501))),
    ...(ech ? [extension(0xfe0d, Buffer.alloc(64, 7))] : []),
    ...(padding ? [extension(21, Buffer.alloc(padding))] : []),
  ]
  const body = Buffer.concat([u16(0x0303), Buffer.alloc(32, 5), Buffer.from([0]), sized16(u16(0xc02b), u16(0xc02f), u16(0xc02c), u16(0xc030)), Buffer.from([1, 0]), sized16(...extensions)])
  const message = Buffer.concat([Buffer.from([1, body.length >> 16, (body.length >> 8) & 255, body.length & 255]), body])
  const size = Math.ceil(message.length / records)
  const pieces = []
  for (let at = 0; at < message.length; at += Math.min(size, 16384)) {
    const piece = message.subarray(at, Math.min(at + Math.min(size, 16384), message.length))
    pieces.push(Buffer.from([22, 3, 1]), sized16(piece))
  }
  return Buffer.concat(pieces).toString('hex')
}

// What came back: `served` (a server's handshake), `denied` (alert access_denied), or something else.
export function verdict(answer) {
  const bytes = Buffer.from(answer.data ?? '', 'latin1')
  if (bytes[0] === 22) return 'served'
  if (bytes[0] === 21 && bytes[6] === 49) return 'denied'
  return bytes.length ? bytes.toString('hex') : answer.result
}
