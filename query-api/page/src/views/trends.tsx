// How the last builds went: a bar a build, a picture a figure. What was zero in all of them is left out.

import { api, Failure, type Night } from '../api'
import { bytes, count, duration, money, percent, plural, when } from '../format'
import { useLoaded, useWidth } from '../ui'

interface Figure {
  name: string
  of: (night: Night) => number
  text: (value: number, night: Night) => string
}

const figures: Figure[] = [
  { name: 'Passages', of: (night) => night.chunks, text: (n) => count(n) },
  { name: 'Documents changed', of: (night) => night.share, text: (n) => percent(n) },
  { name: 'Calls paid for', of: (night) => night.calls, text: (n) => count(n) },
  { name: 'Tokens paid for', of: (night) => night.tokens, text: (n) => count(n) },
  { name: 'Cost', of: (night) => night.cost, text: (n, night) => money(n, night.currency) },
  { name: 'Time', of: (night) => night.seconds, text: (n) => duration(n) },
  {
    name: 'Estimate off by',
    of: (night) => Math.abs(night.cost > 0 ? (night.planned?.cost ?? 0) : (night.planned?.calls ?? 0)),
    text: (n, night) => (night.planned ? percent(n) : 'no plan'),
  },
  { name: 'Dead letters', of: (night) => night.dead_letters, text: (n) => count(n) },
  { name: 'Written', of: (night) => night.bytes, text: (n) => bytes(n) },
]

const tone = (night: Night): string => {
  if (night.status === 'held') return 'warn'
  if (['failed', 'cancelled'].includes(night.status)) return 'bad'
  return night.unchanged ? 'quiet' : 'good'
}

const fewest = 3 // builds that make a trend
const gap = 2
const high = 56

function Bars({ figure, nights }: { figure: Figure; nights: Night[] }) {
  const [at, width] = useWidth(260)
  const most = Math.max(...nights.map(figure.of)) || 1
  const wide = Math.min(24, Math.max(1, (width - gap * (nights.length - 1)) / nights.length))
  const last = nights[nights.length - 1]
  if (!last) return null
  const now = figure.text(figure.of(last), last)
  return (
    <figure ref={at}>
      <figcaption>
        {figure.name} <b>{now}</b>
      </figcaption>
      <svg width={width} height={high} role="img" aria-label={`${figure.name} of ${plural(nights.length, 'build')}, last ${now}`}>
        {nights.map((night, i) => {
          const value = figure.of(night)
          const tall = value > 0 ? Math.max(2, (value / most) * (high - 2)) : 1
          return (
            <rect class={tone(night)} x={i * (wide + gap)} y={high - tall} width={wide} height={tall}>
              <title>{`${when(night.started)}, ${night.status.replaceAll('_', ' ')}: ${figure.text(value, night)}`}</title>
            </rect>
          )
        })}
      </svg>
    </figure>
  )
}

export function Trends({ index }: { index: string }) {
  const { data } = useLoaded('trends ' + index, (signal) =>
    api.trends(index, signal).catch((err: unknown) => {
      if (err instanceof Failure && err.status === 404) return null // nothing has ended, or an older server
      throw err
    }),
  )
  if (!data || data.nights.length < fewest) return null
  const { nights, totals } = data
  const ends = ['published', 'unchanged', 'held', 'failed'].filter((end) => totals[end])
  const sums = [
    totals.calls && plural(totals.calls, 'call'),
    totals.cost && money(totals.cost, nights[nights.length - 1]?.currency),
    duration(totals.seconds ?? 0),
    totals.bytes && `${bytes(totals.bytes)} written`,
  ].filter(Boolean)
  return (
    <section class="trends" aria-label="Trends">
      <h2>The last {plural(nights.length, 'build')}</h2>
      <p class="meta">
        {ends.map((end) => `${count(totals[end])} ${end}`).join(', ')} · together {sums.join(', ')}
      </p>
      <div class="bars">
        {figures
          .filter((figure) => nights.some(figure.of))
          .map((figure) => (
            <Bars figure={figure} nights={nights} />
          ))}
      </div>
    </section>
  )
}
