// Builds, as they run.

import { useState } from 'preact/hooks'
import { api, save, type Problem, type Run, type Watched, type WatchedAnswer } from '../api'
import { count, duration, money, percent, plural, when } from '../format'
import { href, type Route } from '../route'
import { Age, Figures, Loading, State, Table, Trouble, usePolled } from '../ui'
import { Diff } from './generations'
import { Trends } from './trends'

const over = (status: string): boolean =>
  ['completed', 'completed_with_errors', 'held', 'failed', 'cancelled', 'damaged'].includes(status)

const missingRuns = (
  <p>
    This server does not tell of runs. The command line does: <code>unweaver status</code>.
  </p>
)

// A run that goes on lists what it fails with right now, before its total counts it.
export const problemsOf = (run: Run): number =>
  Math.max(run.problems_total ?? 0, typeof run.problems === 'number' ? run.problems : (run.problems?.length ?? 0))

export const listed = (run: Run): Problem[] => (Array.isArray(run.problems) ? run.problems : [])

// A run is named index/generation; the second part is enough where the index is known.
const partOf = (run: Run): string => run.run.split('/').slice(1).join('/') || run.run

function Bar({ share, label }: { share: number; label: string }) {
  return (
    <progress value={Math.max(0, Math.min(1, share))} max={1} aria-label={label}>
      {percent(share)}
    </progress>
  )
}

export function Runs({ route }: { route: Route }) {
  const { index, params } = route
  const { data, failure, behind, loading, again } = usePolled(
    `runs ${index} ${params.cursor ?? ''}`,
    async (signal) => (await api.runs(index, params.cursor ?? '', signal)) ?? null,
    (page) => page === null || page.items.every((run) => over(run.status)),
  )
  if (failure) return <Trouble failure={failure} again={again} />
  if (loading) return <Loading what="Asking for the runs" />
  const paid = data?.items.some((run) => run.cost)
  return (
    <>
      <h1 tabIndex={-1}>Runs</h1>
      {!data && missingRuns}
      {behind && (
        <p class="warning" role="status">
          Not up to date: {behind.detail}. Asking again.
        </p>
      )}
      {data && data.items.length === 0 && (
        <p>
          Nothing was built yet: <code>unweaver index FOLDER --index {index} --wait</code>
        </p>
      )}
      {data && data.items.length > 0 && !params.cursor && <Trends index={index} />}
      {data && data.items.length > 0 && (
        <Table
          label="Runs"
          columns={['Run', 'Status', 'Began', '#Took', ...(paid ? ['#Cost'] : []), '#Problems']}
          rows={data.items.map((run) => [
            run.gone ? (
              (run.generation ?? partOf(run))
            ) : (
              <a href={href(index, 'runs', partOf(run))}>{run.generation ?? partOf(run)}</a>
            ),
            <>
              <State name={run.status} />
              {!over(run.status) && run.overall !== undefined && (
                <Bar share={run.overall} label={`Progress of ${run.run}`} />
              )}
            </>,
            <Age time={run.started} />,
            run.seconds === undefined ? '–' : duration(run.seconds),
            ...(paid ? [run.cost ? money(run.cost, run.currency) : '–'] : []),
            count(problemsOf(run)),
          ])}
        />
      )}
      {data?.next_cursor && (
        <p class="actions">
          <a class="button" href={href(index, 'runs', '', { cursor: data.next_cursor })}>
            Older runs
          </a>
        </p>
      )}
    </>
  )
}

// Problems puts those with one cause together.
export function Problems({ list, total }: { list: Problem[]; total: number }) {
  if (list.length === 0) return null
  const groups = [...Map.groupBy(list, (problem) => problem.code + '\u0000' + (problem.detail ?? ''))]
  return (
    <section aria-label="Problems">
      <h2>{plural(total, 'problem')}</h2>
      <ul class="problems">
        {groups.map(([, group]) => {
          const first = group[0]
          if (!first) return null
          return (
            <li>
              <p>
                <code>{first.code}</code>
                {group.length > 1 && ` × ${count(group.length)}`}
                {first.detail && <>: {first.detail}</>}
              </p>
              <ul class="objects">
                {group.slice(0, 5).map((problem) => (
                  <li>
                    <span class="key">{problem.object}</span>
                  </li>
                ))}
                {group.length > 5 && <li>and {group.length - 5} more</li>}
              </ul>
            </li>
          )
        })}
      </ul>
      {total > list.length && (
        <p class="hint">The first {list.length} are shown; the rest are in the report’s artifact.</p>
      )}
    </section>
  )
}

function Stages({ run }: { run: Run }) {
  const stages = run.stages ?? []
  if (stages.length === 0) return null
  return (
    <section aria-label="Stages">
      <h2>Stages</h2>
      <table class="stages">
        <thead>
          <tr>
            <th scope="col">Stage</th>
            <th scope="col">Done</th>
            <th scope="col" class="n">
              Units
            </th>
            <th scope="col" class="n">
              Time
            </th>
          </tr>
        </thead>
        <tbody>
          {stages.map((stage) => {
            const running = stage.name === run.stage && !over(run.status)
            const share =
              stage.total > 0 ? stage.done / stage.total : over(run.status) || (stage.seconds > 0 && !running) ? 1 : 0
            return (
              <tr class={running ? 'now' : ''}>
                <th scope="row">
                  {stage.name}
                  {running && <span class="unseen"> (running)</span>}
                </th>
                <td>
                  <Bar share={share} label={`Stage ${stage.name}`} />
                </td>
                <td class="n">{stage.total > 0 ? `${count(stage.done)} / ${count(stage.total)}` : '–'}</td>
                <td class="n">{stage.seconds > 0 ? duration(stage.seconds) : '–'}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </section>
  )
}

// Cost sets what was paid against what was expected.
function Cost({ run }: { run: Run }) {
  const expected = run.estimate?.cost
  const calls = run.calls
  const hits = run.ledger_hits
  const sum = (one: Run['calls']): number => (one ? one.extract + one.shorten + one.embed : 0)
  if (run.cost === undefined || (!run.cost && !expected?.high && sum(calls) + sum(hits) === 0)) return null
  const most = Math.max(expected?.high ?? 0, run.cost) || 1
  return (
    <section aria-label="Cost">
      <h2>Cost</h2>
      <p class="cost">
        <b>{money(run.cost, run.currency)}</b>
        {expected && ` of an estimated ${money(expected.low)} to ${money(expected.high, run.currency)}`}
      </p>
      {expected && (
        <svg class="against" width="100%" height="16" aria-hidden="true">
          <rect
            class="range"
            x={`${(expected.low / most) * 100}%`}
            width={`${((expected.high - expected.low) / most) * 100}%`}
            y="0"
            height="16"
          />
          <rect
            class={run.cost > expected.high ? 'paid bad' : 'paid'}
            width={`${(run.cost / most) * 100}%`}
            y="5"
            height="6"
          />
        </svg>
      )}
      <p class="meta">
        {plural(sum(calls), 'call')} paid for{hits && sum(hits) > 0 && `, ${count(sum(hits))} taken from the ledger`}
        {run.tokens &&
          ` · ${count(run.tokens.prompt)} prompt, ${count(run.tokens.completion)} completion, ` +
            `${count(run.tokens.embedding)} embedding tokens`}
        {run.models?.chat && ` · ${run.models.chat}`}
      </p>
    </section>
  )
}

// shownAnswer shows the documents of an answer and what it quotes.
const shownAnswer = ({ passages, quote }: WatchedAnswer) => (
  <>
    {passages.length === 0 ? 'no passage' : [...new Set(passages.map((one) => one.document))].map((key) => <div class="key">{key}</div>)}
    {quote && <q>{quote}</q>}
  </>
)

// Standing lists the questions whose passages changed.
function Standing({ watched }: { watched: Watched }) {
  const list = watched.listed ?? []
  return (
    <section aria-label="Standing questions">
      <h2>
        {count(watched.changed)} of {plural(watched.questions, 'standing question')} changed
      </h2>
      <p class="meta">
        {watched.since ? `Compared with ${watched.since}` : 'Nothing to compare with yet'} · {count(watched.asked)} asked
        {watched.same > 0 && `, ${count(watched.same)} whose readers see nothing new`}
      </p>
      {watched.problem && (
        <p class="warning">
          {watched.failed ? `${count(watched.failed)} not compared: ` : ''}
          {watched.problem}
        </p>
      )}
      {list.length > 0 && (
        <Table
          label="Changed questions"
          columns={['question', 'before', 'after', 'because of']}
          rows={list.map((one) => [
            one.question + (one.labels ? ` (${one.labels.join(', ')})` : ''),
            shownAnswer(one.before),
            shownAnswer(one.after),
            one.because.map((change) => `${change.change} ${change.object}`.trim()).join(', ') || 'ranks moved',
          ])}
        />
      )}
      {watched.changed > list.length && (
        <p class="hint">
          The first {list.length} are shown; the rest are in <code>{watched.path}</code>.
        </p>
      )}
    </section>
  )
}

// Report saves the run as a text to be kept or sent on.
function Report({ index, run }: { index: string; run: string }) {
  const [failed, setFailed] = useState('')
  const keep = (): void => {
    setFailed('')
    save(api.report(index, run), `${index}-${run}.md`).catch((err: unknown) => setFailed(err instanceof Error ? err.message : String(err)))
  }
  return (
    <p class="actions">
      <button type="button" onClick={keep}>
        Save the report
      </button>
      {failed && <span role="alert">{failed}</span>}
    </p>
  )
}

// Next lists what a person can do now. A command stands at the end of its line.
function Next({ list }: { list: string[] }) {
  if (list.length === 0) return null
  return (
    <section aria-label="What to do">
      <h2>What to do</h2>
      <ul class="next">
        {list.map((line) => {
          const [words = '', command] = line.split(/ (unweaver .*)/)
          return (
            <li>
              {words} {command && <code>{command}</code>}
            </li>
          )
        })}
      </ul>
    </section>
  )
}

export function RunView({ route }: { route: Route }) {
  const { index, id } = route
  const { data, failure, behind, loading, again } = usePolled(
    `run ${index} ${id}`,
    async (signal) => (await api.run(index, id, signal)) ?? null,
    (run) => run === null || over(run.status),
  )
  if (failure) return <Trouble failure={failure} again={again} />
  if (loading) return <Loading what="Asking how it goes" />
  const up = (
    <p class="up">
      <a href={href(index, 'runs')}>Runs</a>
    </p>
  )
  if (!data)
    return (
      <>
        {up}
        <h1 tabIndex={-1}>Run {id}</h1>
        <p>
          There is no such run, or this server does not tell of runs. See{' '}
          <code>
            unweaver status {index}/{id}
          </code>
          .
        </p>
      </>
    )
  const running = !over(data.status)
  const left = data.eta_seconds
  return (
    <>
      {up}
      <h1 tabIndex={-1}>
        {id} <State name={data.status} />
      </h1>
      {behind && (
        <p class="warning" role="status">
          Not up to date: {behind.detail}. Asking again.
        </p>
      )}
      {(data.reason || data.detail) && <p class="warning">{[data.reason, data.detail].filter(Boolean).join(': ')}</p>}
      <Next list={data.next ?? []} />
      {running && (
        <div class="overall">
          <Bar share={data.overall ?? 0} label="Progress of the run" />
          <p class="meta">
            {percent(data.overall ?? 0)} done{data.stage && ` · ${data.stage}`}
            {data.seconds !== undefined && ` · for ${duration(data.seconds)}`}
            {left ? ` · about ${duration(left)} left` : ' · time left: ?'}
          </p>
        </div>
      )}
      <Figures
        list={[
          ['documents', count(data.documents)],
          ['passages', count(data.chunks)],
          ['entities', count(data.classes)],
          [running ? 'so far' : 'took', data.seconds === undefined ? '–' : duration(data.seconds)],
        ]}
      />
      <Cost run={data} />
      <Stages run={data} />
      {data.diff && <Diff diff={data.diff} />}
      {data.watched && <Standing watched={data.watched} />}
      <Problems list={listed(data)} total={problemsOf(data)} />
      <Report index={index} run={id} />
      <p class="meta">
        Began {when(data.started)}
        {data.ended && `, ended ${when(data.ended)}`}
        {data.published && (
          <>
            {' '}
            · published as <a href={href(index, 'generations', data.generation ?? '')}>{data.generation}</a>
          </>
        )}
      </p>
    </>
  )
}
