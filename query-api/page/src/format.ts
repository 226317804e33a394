// How figures and texts are said.

const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })

export const count = (n: number | undefined): string =>
  n === undefined ? '–' : grouped.format(n).replaceAll(',', '\u202f')

export const plural = (n: number, one: string, many = one + 's'): string => `${count(n)} ${n === 1 ? one : many}`

export function bytes(n: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let unit = 0
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1000
    unit++
  }
  return `${n < 10 && unit > 0 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`
}

export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`
}

// instant of a time that the server tells; those before 1970 mean that it knows none.
function instant(time: string | undefined): number | undefined {
  const then = time ? Date.parse(time) : NaN
  return then > 0 ? then : undefined
}

export function ago(time: string | undefined): string {
  const then = instant(time)
  if (then === undefined) return '–'
  const seconds = (Date.now() - then) / 1000
  if (seconds < 5) return 'just now'
  const steps: [number, string][] = [
    [60, 'second'],
    [60, 'minute'],
    [24, 'hour'],
    [30, 'day'],
    [12, 'month'],
    [1e9, 'year'],
  ]
  let value = Math.max(0, seconds)
  for (const [size, name] of steps) {
    if (value < size) return `${plural(Math.floor(value), name)} ago`
    value /= size
  }
  return ''
}

export function when(time: string | undefined): string {
  const then = instant(time)
  if (then === undefined) return '–'
  return new Date(then).toISOString().replace('T', ' ').slice(0, 16) + ' UTC'
}

export function percent(share: number): string {
  if (share > 0 && share < 0.001) return '<\u00a00.1\u202f%'
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)}\u202f%`
}

export function money(cost: number, currency = ''): string {
  return `${cost.toFixed(cost !== 0 && cost < 0.1 ? 4 : 2)}${currency ? ' ' + currency : ''}`
}

export const short = (hash: string): string => hash.slice(0, 10)

// brief is the key of a document; that of a row ends with a hash, of which the beginning is enough.
export const brief = (key: string): string => key.replace(/#([0-9a-f]{8})[0-9a-f]{56}$/, ', row $1…')

export const cut = (text: string, most: number): string => {
  const points = Array.from(text)
  return points.length > most
    ? points
        .slice(0, most - 1)
        .join('')
        .trimEnd() + '…'
    : text
}

// confident says a confidence in words.
export function confident(value: number): { level: string; short: string; text: string } {
  if (value >= 0.7) return { level: 'high', short: 'high', text: 'High confidence' }
  if (value >= 0.4) return { level: 'middle', short: 'moderate', text: 'Moderate confidence: check the passages' }
  return { level: 'low', short: 'low', text: 'Low confidence: this may not be an answer' }
}

export type Places = { start: number; end: number }[]

// shifted are places as they are counted from another beginning.
export const shifted = (places: Places, by: number): Places =>
  places.map(({ start, end }) => ({ start: start - by, end: end - by }))

export interface Piece {
  text: string
  marked: boolean
}

// pieces cuts a text where marks begin and end. Offsets are code points from the text's beginning; what lies outside
// of it, overlaps or is upside down is put right. What is hidden is left out, but a bar between two cells of a table is
// a dot.
export function pieces(text: string, marks: Places, hidden: Places = []): Piece[] {
  const points = Array.from(text)
  for (const { start, end } of hidden) {
    const bar = end - start === 1 && points[start] === '|'
    if (end > 0) points.fill(bar ? '·' : '', Math.max(start, 0), end)
  }
  const out: Piece[] = []
  let done = 0
  for (const mark of [...marks].sort((a, b) => a.start - b.start)) {
    const start = Math.min(Math.max(mark.start, done), points.length)
    const end = Math.min(mark.end, points.length)
    if (end <= start) continue
    if (start > done) out.push({ text: points.slice(done, start).join(''), marked: false })
    out.push({ text: points.slice(start, end).join(''), marked: true })
    done = end
  }
  if (done < points.length) out.push({ text: points.slice(done).join(''), marked: false })
  return out
}

// address is a link that may be followed: of the web alone.
export function address(text: string): string {
  if (!/^https?:\/\/\S+$/i.test(text)) return ''
  try {
    const url = new URL(text)
    return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : ''
  } catch {
    return ''
  }
}
