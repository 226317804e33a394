// The night that took a document away from a question, and why.

import { useState } from 'preact/hooks'
import { api } from '../api'
import { brief, plural } from '../format'
import { mine, remember } from '../mine'
import { go, href, type Route } from '../route'
import { Loading, Table, Trouble, useLoaded } from '../ui'
import { Given, QuestionBox } from './ask'

const rank = (n: number): string => (n > 0 ? String(n) : '–')

function Night({ index, params }: Route) {
  const { q: query, expect, method, from, to, k } = params
  const body = { query, expect, method, from, to, top_chunks: Number(k) || undefined }
  const { data, failure, again } = useLoaded('bisect' + index + JSON.stringify(body), (signal) =>
    api.bisect(index, body, signal),
  )
  if (failure) return <Trouble failure={failure} again={again} />
  if (!data) return <Loading what="Asking the generations" />
  const { good, bad } = data
  const named = (generation: string) => <a href={href(index, 'generations', generation)}>{generation}</a>
  const both = { q: query, k, ga: good.generation, gb: bad.generation, a: method || 'hybrid', b: method || 'hybrid' }
  return (
    <section aria-label="Night">
      <h2 class="night">
        {named(good.generation)} returns it at rank {good.rank} of {good.top}, {named(bad.generation)} does not
      </h2>
      <ul class="causes">
        {data.causes.map((cause) => (
          <li>
            {cause.confirmed && <span class="badge good">confirmed</span>} {cause.text}
          </li>
        ))}
      </ul>
      {data.ranking.length > 0 && (
        <Table
          label="Ranking before and after"
          columns={['Passage of', '#Before', '#After', 'Document']}
          rows={data.ranking.map(({ document, before, after, expected, change }) => [
            <a href={href(index, 'documents', document, { generation: after ? bad.generation : good.generation })}>
              {expected ? <mark>{brief(document)}</mark> : brief(document)}
            </a>,
            rank(before),
            rank(after),
            change,
          ])}
        />
      )}
      {data.notices.map((text) => (
        <p class="hint">{text}</p>
      ))}
      <p class="meta">
        {plural(data.questions, 'question')}, {plural(data.tokens, 'token')} ·{' '}
        <a href={href(index, 'compare', '', both)}>Compare the answers of both</a>
      </p>
    </section>
  )
}

export function Bisect({ route }: { route: Route }) {
  const { index, params } = route
  const [text, setText] = useState(params.q ?? '')
  const [expect, setExpect] = useState(params.expect ?? '')
  const ask = (): void => {
    remember(index, text)
    go(href(index, 'bisect', '', { ...params, q: text.trim(), expect: expect.trim() }))
  }
  const submit = (event: Event): void => {
    event.preventDefault()
    if (text.trim() && expect.trim()) ask()
  }
  return (
    <>
      <h1 tabIndex={-1}>Find the night</h1>
      <p class="lead">A question found a document once and does not now: which night took it away, and why?</p>
      <form class="ask" onSubmit={submit} role="search">
        <label for="question">Question</label>
        <QuestionBox value={text} change={setText} submit={submit} />
        <label for="expect">Document that it should find</label>
        <div class="row">
          <input id="expect" value={expect} onInput={(event) => setExpect(event.currentTarget.value)} />
          <button class="primary">Find</button>
        </div>
      </form>
      {params.q && params.expect && (mine(index, params.q) ? <Night {...route} /> : <Given ask={ask} />)}
    </>
  )
}
