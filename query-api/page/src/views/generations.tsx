// Generations of an index, and what one of them changed.

import { api, type Generation, type Run } from '../api'
import { ago, count, duration, money, plural, short, when } from '../format'
import { href, type Route } from '../route'
import { Age, Figures, Loading, State, Table, Trouble, useLoaded } from '../ui'
import { listed, Problems, problemsOf } from './runs'

const change = (now: number, before: number | undefined): string => {
  if (before === undefined || now === before) return ''
  return now > before ? `+${count(now - before)}` : `−${count(before - now)}`
}

function Changed({ now, before }: { now: number; before: number | undefined }) {
  const text = change(now, before)
  return (
    <>
      {count(now)}
      {text && <span class="change"> {text}</span>}
    </>
  )
}

// problemsByRun counts the problems of the last runs, by generation; undefined where the server gives no runs, as to a key
// that may not see them.
async function problemsByRun(index: string, signal: AbortSignal): Promise<Map<string, number> | undefined> {
  const page = await api.runs(index, '', signal).catch(() => undefined)
  return page && new Map(page.items.map((run) => [run.generation ?? '', problemsOf(run)]))
}

export function Generations({ route }: { route: Route }) {
  const { index } = route
  const { data, failure, again } = useLoaded('generations ' + index, (signal) =>
    Promise.all([api.generations(index, signal), problemsByRun(index, signal)]),
  )
  if (failure) return <Trouble failure={failure} again={again} />
  if (!data) return <Loading what="Asking for the generations" />
  const [{ items }, problems] = data
  return (
    <>
      <h1 tabIndex={-1}>Generations</h1>
      <p class="lead">
        Each build that changed something makes one. Queries are answered by the current one.{' '}
        <a href={href(index, 'bisect')}>Find the night that took a document away from a question.</a>
      </p>
      <Table
        label="Generations"
        columns={['Generation', 'State', 'Built', '#Documents', '#Passages', '#Entities', ...(problems ? ['#Problems'] : [])]}
        rows={items.map((one, i) => {
          const before = items[i + 1]
          return [
            <a href={href(index, 'generations', one.generation)}>{one.generation}</a>,
            <State name={one.state} />,
            <Age time={one.created} />,
            <Changed now={one.documents} before={before?.documents} />,
            <Changed now={one.chunks} before={before?.chunks} />,
            <Changed now={one.classes} before={before?.classes} />,
            ...(problems ? [count(problems.get(one.generation))] : []),
          ]
        })}
      />
    </>
  )
}

const diffNames: [string, string, string][] = [
  ['added', 'added', 'good'],
  ['changed', 'changed', 'live'],
  ['moved', 'moved', 'live'],
  ['removed', 'removed', 'bad'],
  ['same', 'the same', 'plain'],
  ['unusable', 'unusable', 'warn'],
]

// Diff draws how the documents of a generation differ from the one before.
export function Diff({ diff }: { diff: Record<string, number> }) {
  const list = diffNames.map(([name, text, tone]) => ({ text, tone, n: diff[name] ?? 0 })).filter((one) => one.n > 0)
  const total = list.reduce((sum, one) => sum + one.n, 0)
  if (total === 0) return null
  let x = 0
  return (
    <section aria-label="Documents against the generation before">
      <h2>Documents against the generation before</h2>
      <svg class="diff" width="100%" height="14" aria-hidden="true">
        {list.map((one) => {
          const at = x
          x += (one.n / total) * 100
          return <rect class={one.tone} x={`${at}%`} width={`${(one.n / total) * 100}%`} height="14" />
        })}
      </svg>
      <ul class="legend">
        {list.map((one) => (
          <li>
            <span class={`dot ${one.tone}`} aria-hidden="true" />
            {count(one.n)} {one.text}
          </li>
        ))}
      </ul>
    </section>
  )
}

type Counts = Pick<Generation, 'generation' | 'documents' | 'chunks' | 'classes'>

interface Told {
  row: Generation | undefined
  before: Counts | undefined // its parent, or the one before it in the list
  report: Run | undefined
}

// A report stands at the top of the answer or in it, as the server has it.
const reportOf = (raw: Record<string, unknown> | undefined): Run | undefined => {
  if (!raw) return undefined
  const inner = raw.report
  return (inner && typeof inner === 'object' ? { diff: raw.diff, ...inner } : raw) as unknown as Run
}

async function told(index: string, name: string, signal: AbortSignal): Promise<Told> {
  const [{ items: generations }, raw] = await Promise.all([
    api.generations(index, signal),
    api.generation(index, name, signal),
  ])
  const i = generations.findIndex((one) => one.generation === name)
  const report = reportOf(raw)
  const parent = raw?.parent as Counts | null | undefined
  return { row: generations[i], before: parent ?? (i >= 0 ? generations[i + 1] : undefined), report }
}

export function GenerationView({ route }: { route: Route }) {
  const { index, id } = route
  const { data, failure, again } = useLoaded(`generation ${index} ${id}`, (signal) => told(index, id, signal))
  if (failure) return <Trouble failure={failure} again={again} />
  if (!data) return <Loading what="Reading its report" />
  const { row, before, report } = data
  if (!row && !report) {
    return (
      <section class="trouble" role="alert">
        <h1 tabIndex={-1}>There is no generation {id}</h1>
        <p>
          Older ones are collected after a while. <a href={href(index, 'generations')}>See those that are kept.</a>
        </p>
      </section>
    )
  }
  const built = when(row?.created ?? report?.ended)
  const usable = row?.state === 'current' || row?.state === 'published'
  return (
    <>
      <p class="up">
        <a href={href(index, 'generations')}>Generations</a>
      </p>
      <h1 tabIndex={-1}>
        {id} {row && <State name={row.state} />}
      </h1>
      <p class="meta">
        {built === '–' ? 'Built' : `Built ${built} (${ago(row?.created ?? report?.ended)})`}
        {report?.seconds ? ` in ${duration(report.seconds)}` : ''}
        {!!report?.cost && ` · cost ${money(report.cost, report.currency)}`}
        {row && (
          <>
            {' '}
            · content <code title={row.content_hash}>{short(row.content_hash)}</code>
          </>
        )}
      </p>
      {row && (
        <Figures
          list={[
            ['documents', <Changed now={row.documents} before={before?.documents} />],
            ['passages', <Changed now={row.chunks} before={before?.chunks} />],
            ['entities', <Changed now={row.classes} before={before?.classes} />],
            ...(row.dead_letters > 0 ? [['dead letters', count(row.dead_letters)] as [string, string]] : []),
          ]}
        />
      )}
      {report?.diff && <Diff diff={report.diff} />}
      {!report && (
        <p class="hint">
          This server does not give the report of a generation; the figures are against{' '}
          {before ? before.generation : 'nothing, as it is the oldest that is kept'}.
        </p>
      )}
      {report && <Problems list={listed(report)} total={report.problems_total ?? listed(report).length} />}
      {usable && (
        <p class="actions">
          <a class="button" href={href(index, 'ask', '', { generation: row?.state === 'current' ? '' : id })}>
            Ask this generation
          </a>
          {before && (
            <a
              class="button"
              href={href(index, 'compare', '', { ga: before.generation, gb: id, b: 'hybrid', a: 'hybrid' })}
            >
              Compare answers with the one before
            </a>
          )}
        </p>
      )}
      {row && row.dead_letters > 0 && !report?.problems && (
        <p class="hint">{plural(row.dead_letters, 'passage')} could not be extracted; the report names them.</p>
      )}
    </>
  )
}
