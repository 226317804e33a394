// Two methods, or two generations, side by side: what moved, and what only one of them finds.

import { useState } from 'preact/hooks'
import { api, type Chunk, type Question, type QueryResponse } from '../api'
import { brief, cut, duration, plural } from '../format'
import { mine, remember } from '../mine'
import { go, href, type Route } from '../route'
import { Chooser, follow, Loading, Trouble, useLoaded } from '../ui'
import { Given, GenerationChooser, methods, QuestionBox, rules } from './ask'
import { documentHref, Place, spoken } from './passage'

const choices: [string, string][] = [
  ...methods,
  ...rules.filter(([rule]) => rule).map(([rule]): [string, string] => ['unweaver:' + rule, `unweaver, rule ${rule}`]),
]

function side(params: Record<string, string>, name: 'a' | 'b'): Question {
  const [method = '', rule = ''] = (params[name] ?? (name === 'b' ? 'bm25' : '')).split(':')
  const generation = params['g' + name] ?? params.generation
  return {
    query: (params.q ?? '').trim(),
    top_chunks: Number(params.k) || 10,
    ...(method && { method }),
    ...(rule && { rule }),
    ...(generation && { generation }),
  }
}

interface Row {
  chunk: Chunk
  generation: string
  a?: number
  b?: number
}

// The same passage in another generation may have another id: its place in its document tells it too.
const place = (chunk: Chunk): string => `${chunk.document}\u0000${chunk.start}\u0000${chunk.end}`

function rowsOf(a: QueryResponse, b: QueryResponse): Row[] {
  const rows = new Map<string, Row>()
  for (const chunk of a.chunks) rows.set(place(chunk), { chunk, generation: a.generation, a: chunk.rank })
  for (const chunk of b.chunks) {
    const row = rows.get(place(chunk))
    if (row) row.b = chunk.rank
    else rows.set(place(chunk), { chunk, generation: b.generation, b: chunk.rank })
  }
  return [...rows.values()].sort(
    (x, y) => Math.min(x.a ?? 999, x.b ?? 999) - Math.min(y.a ?? 999, y.b ?? 999) || (x.a ?? 999) - (y.a ?? 999),
  )
}

function Move({ a, b }: { a?: number; b?: number }) {
  if (a === undefined) return <span class="move only-b">only B</span>
  if (b === undefined) return <span class="move only-a">only A</span>
  if (a === b) return <span class="move same">same</span>
  const places = Math.abs(a - b)
  return a > b ? (
    <span class="move up">
      ▲ {places}
      <span class="unseen"> up in B</span>
    </span>
  ) : (
    <span class="move down">
      ▼ {places}
      <span class="unseen"> down in B</span>
    </span>
  )
}

const nameOf = (r: QueryResponse): string => r.method + (r.rule ? ` (${r.rule})` : '')

function Comparison({ index, a, b }: { index: string; a: QueryResponse; b: QueryResponse }) {
  const rows = rowsOf(a, b)
  const both = rows.filter((row) => row.a !== undefined && row.b !== undefined)
  const moved = both.filter((row) => row.a !== row.b)
  const apart = a.generation !== b.generation
  const head = (r: QueryResponse) =>
    `${nameOf(r)}${apart ? ' · ' + r.generation : ''} · ${duration((r.timings_ms.total ?? 0) / 1000)}`
  if (rows.length === 0) return <p>Neither finds anything: no passage matches the question.</p>
  return (
    <section aria-label="Comparison">
      <p class="lead">
        {both.length === rows.length ? 'Both find the same passages' : `${plural(both.length, 'passage')} in both`}
        {moved.length > 0 ? `, ${moved.length} of them at another rank` : ', at the same ranks'}
        {rows.some((row) => row.b === undefined) && `; ${rows.filter((row) => row.b === undefined).length} only in A`}
        {rows.some((row) => row.a === undefined) && `; ${rows.filter((row) => row.a === undefined).length} only in B`}.
      </p>
      <table class="compare">
        <caption>
          <span>
            <b>A</b> {head(a)}
          </span>
          <span>
            <b>B</b> {head(b)}
          </span>
        </caption>
        <thead>
          <tr>
            <th scope="col" class="n">
              A
            </th>
            <th scope="col" class="n">
              B
            </th>
            <th scope="col">Move</th>
            <th scope="col">Passage</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr class={row.a === undefined ? 'in-b' : row.b === undefined ? 'in-a' : ''}>
              <td class="n rank">{row.a ?? '–'}</td>
              <td class="n rank">{row.b ?? '–'}</td>
              <td>
                <Move {...(row.a !== undefined && { a: row.a })} {...(row.b !== undefined && { b: row.b })} />
              </td>
              <td>
                <a href={documentHref(index, row.generation, row.chunk)}>
                  {cut(row.chunk.title || row.chunk.document, 90)}
                </a>
                <p class="where">
                  <Place chunk={row.chunk} />
                  <span class="key">{brief(row.chunk.document)}</span>
                </p>
                <p class="snippet">
                  {cut(spoken(row.chunk), 150)}
                </p>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

function Compared({ index, params }: { index: string; params: Record<string, string> }) {
  const [a, b] = [side(params, 'a'), side(params, 'b')]
  const { data, failure, again } = useLoaded(index + JSON.stringify([a, b]), (signal) =>
    Promise.all([api.ask(index, a, signal), api.ask(index, b, signal)]),
  )
  if (failure) return <Trouble failure={failure} again={again} />
  if (!data) return <Loading what="Asking both" />
  return <Comparison index={index} a={data[0]} b={data[1]} />
}

export function Compare({ route }: { route: Route }) {
  const { index, params } = route
  const [text, setText] = useState(params.q ?? '')
  const [, setRound] = useState(0)
  const ask = (question: string): void => {
    remember(index, question)
    setRound((n) => n + 1)
  }
  const submit = (event: Event): void => {
    event.preventDefault()
    ask(text)
    if (text.trim()) go(href(index, 'compare', '', { ...params, q: text.trim() }))
  }
  const choose =
    (name: string) =>
    (value: string): void =>
      follow({ [name]: value }, true)
  return (
    <>
      <h1 tabIndex={-1}>Compare</h1>
      <p class="lead">One question, two ways to find passages. No model writes an answer.</p>
      <form class="ask" onSubmit={submit} role="search">
        <label class="unseen" for="question">
          Question
        </label>
        <div class="row">
          <QuestionBox value={text} change={setText} submit={submit} />
          <button class="primary">Compare</button>
        </div>
        <div class="sides">
          {(['a', 'b'] as const).map((name) => (
            <fieldset>
              <legend>{name.toUpperCase()}</legend>
              <Chooser
                label="Method"
                value={params[name] ?? (name === 'b' ? 'bm25' : '')}
                choices={choices}
                onChange={choose(name)}
              />
              <GenerationChooser
                index={index}
                value={params['g' + name] ?? params.generation ?? ''}
                onChange={choose('g' + name)}
              />
            </fieldset>
          ))}
        </div>
      </form>
      {params.q &&
        (mine(index, params.q) ? (
          <Compared index={index} params={params} />
        ) : (
          <Given ask={() => ask(params.q ?? '')} />
        ))}
    </>
  )
}
