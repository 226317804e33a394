// Ask a question and read the answer.

import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { api, Failure, type Question, type QueryResponse } from '../api'
import { confident, cut, duration, percent, plural } from '../format'
import { mine, remember } from '../mine'
import { go, href, type Route } from '../route'
import { Chooser, follow, Loading, say, Trouble, useLoaded } from '../ui'
import { Passage } from './passage'
import { Picture } from './picture'

export const methods: [string, string][] = [
  ['', 'the index’s own'],
  ['hybrid', 'hybrid: words, vectors and a walk'],
  ['unweaver', 'unweaver: entities elect passages'],
  ['ppr', 'ppr: a walk from similar entities'],
  ['aligned', 'aligned: strengths under capacities'],
  ['vector', 'vector: similarity alone'],
  ['bm25', 'bm25: words alone'],
]

export const rules: [string, string][] = [
  ['', 'the index’s own'],
  ...['weighted', 'av', 'sav', 'pav', 'seqpav', 'cc', 'seqcc', 'phragmen', 'mes'].map((name): [string, string] => [
    name,
    name,
  ]),
]

export function questionOf(params: Record<string, string>): Question {
  const top = Number(params.k)
  return {
    query: (params.q ?? '').trim(),
    ...(params.method && { method: params.method }),
    ...(params.rule && { rule: params.rule }),
    ...(top > 0 && { top_chunks: top }),
    ...(params.generation && { generation: params.generation }),
  }
}

// answers that were given already: going back in the history must not ask, and pay, again.
const answers = new Map<string, QueryResponse>()

async function asked(index: string, question: Question, signal: AbortSignal): Promise<QueryResponse> {
  const name = index + JSON.stringify(question)
  const known = answers.get(name)
  if (known) return known
  const response = await api.ask(index, question, signal)
  answers.set(name, response)
  const [oldest] = answers.keys()
  if (answers.size > 20 && oldest !== undefined) answers.delete(oldest)
  return response
}

// Generations lets one ask an older one.
export function GenerationChooser({
  index,
  value,
  onChange,
}: {
  index: string
  value: string
  onChange: (value: string) => void
}) {
  const { data } = useLoaded('generations ' + index, (signal) => api.generations(index, signal))
  const names = (data?.items ?? [])
    .filter((one) => one.state === 'current' || one.state === 'published')
    .map((one): [string, string] => [one.generation, one.generation + (one.state === 'current' ? ' (current)' : '')])
  if (value && !names.some(([name]) => name === value)) names.unshift([value, value])
  return <Chooser label="Generation" value={value} onChange={onChange} choices={[['', 'current'], ...names]} />
}

// QuestionBox is as high as its text. Enter sends the question, with Shift it begins a line.
export function QuestionBox(props: {
  value: string
  change: (text: string) => void
  submit: (event: Event) => void
  field?: RefObject<HTMLTextAreaElement | null>
  'data-autofocus'?: boolean
  'aria-invalid'?: boolean
  'aria-describedby'?: string | undefined
}) {
  const { value, change, submit, field, ...more } = props
  const own = useRef<HTMLTextAreaElement>(null)
  const box = field ?? own
  useEffect(() => {
    if (!box.current) return
    box.current.style.height = 'auto'
    box.current.style.height = `${box.current.scrollHeight + 2}px`
  }, [value])
  return (
    <textarea
      id="question"
      ref={box}
      rows={1}
      value={value}
      maxLength={8192}
      placeholder="Ask a question"
      enterkeyhint="search"
      onInput={(event) => change(event.currentTarget.value)}
      onKeyDown={(event) => event.key === 'Enter' && !event.shiftKey && !event.isComposing && submit(event)}
      {...more}
    />
  )
}

function Form({ route, again }: { route: Route; again: () => void }) {
  const { params, index } = route
  const [text, setText] = useState(params.q ?? '')
  const field = useRef<HTMLTextAreaElement>(null)
  const [empty, setEmpty] = useState(false)
  const [advanced, setAdvanced] = useState(
    Boolean(params.method || params.rule || params.generation || params.k || params.answer),
  )
  useEffect(() => setText(params.q ?? ''), [params.q])
  useEffect(() => {
    if (!params.q) field.current?.focus({ preventScroll: true })
  }, [])
  const submit = (event: Event): void => {
    event.preventDefault()
    const q = text.trim()
    setEmpty(!q)
    if (!q) {
      field.current?.focus()
      return
    }
    remember(index, q)
    const { open: _, ...rest } = params
    const to = href(index, 'ask', '', { ...rest, q })
    if (to === location.hash) again()
    else go(to)
  }
  const choose =
    (name: string) =>
    (value: string): void =>
      follow({ [name]: value, ...(name === 'method' && { rule: '' }) }, true)
  return (
    <form class="ask" onSubmit={submit} role="search">
      <label class="unseen" for="question">
        Question
      </label>
      <div class="row">
        <QuestionBox
          value={text}
          change={setText}
          submit={submit}
          field={field}
          data-autofocus
          aria-invalid={empty}
          aria-describedby={empty ? 'no-question' : undefined}
        />
        <button class="primary">Ask</button>
      </div>
      {empty && (
        <p class="hint bad" id="no-question" role="alert">
          Write a question first.
        </p>
      )}
      <details class="fold" open={advanced} onToggle={(event) => setAdvanced(event.currentTarget.open)}>
        <summary>Advanced</summary>
        {advanced && (
          <div class="choices">
            <Chooser label="Method" value={params.method ?? ''} choices={methods} onChange={choose('method')} />
            {params.method === 'unweaver' && (
              <Chooser label="Rule" value={params.rule ?? ''} choices={rules} onChange={choose('rule')} />
            )}
            <Chooser
              label="Passages"
              value={params.k ?? ''}
              onChange={choose('k')}
              choices={[
                ['', 'the index’s own'],
                ['3', '3'],
                ['5', '5'],
                ['10', '10'],
                ['20', '20'],
                ['50', '50'],
              ]}
            />
            <GenerationChooser index={index} value={params.generation ?? ''} onChange={choose('generation')} />
            <Chooser
              label="Answer"
              value={params.answer ?? ''}
              onChange={choose('answer')}
              choices={[
                ['', 'write one'],
                ['no', 'passages only'],
              ]}
            />
          </div>
        )}
      </details>
    </form>
  )
}

// examples are made of the names that the most passages mention.
async function examples(index: string, signal: AbortSignal): Promise<string[]> {
  const { items } = await api.entities(index, { order: 'passages', limit: 500 }, signal)
  const usable = /^\p{Lu}[\p{L}\p{M}]+(?: \p{Lu}[\p{L}\p{M}]+){1,3}$/u // two words say what is meant
  const names = items.filter(({ name }) => name.length < 36 && usable.test(name)).map(({ name }) => name)
  const [first, second, third] = names
  return [
    ...(first ? [`What is known about ${first}?`] : []),
    ...(first && second ? [`How are ${first} and ${second} connected?`] : []),
    ...(third ? [`Why does ${third} matter?`] : []),
  ]
}

function Examples({ index }: { index: string }) {
  const { data, failure, again } = useLoaded('examples ' + index, (signal) => examples(index, signal))
  if (failure && [0, 401, 403, 404].includes(failure.status)) return <Trouble failure={failure} again={again} />
  return (
    <div class="examples">
      <p>The answer names the passages that it rests on, and shows how they were found.</p>
      {data && data.length > 0 && (
        <>
          <h2>For example</h2>
          <ul>
            {data.map((q) => (
              <li>
                <a href={href(index, 'ask', '', { q })}>{q}</a>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  )
}

function Cite({ number, id, title }: { number: number; id: string; title: string }) {
  const { hash } = location
  const open = (event: Event): void => {
    event.preventDefault()
    follow({ open: id, view: undefined }, true)
    focusPassage(id)
  }
  return (
    <a class="cite" href={hash} onClick={open} aria-label={`Passage ${number}: ${title}`}>
      [{number}]
    </a>
  )
}

function focusPassage(id: string): void {
  requestAnimationFrame(() => {
    const passage = document.getElementById('passage-' + id)
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches
    passage?.querySelector('button')?.focus({ preventScroll: true })
    const target = passage?.querySelector('.text .sentence') ?? passage?.querySelector('.text mark') ?? passage
    target?.scrollIntoView({ behavior: calm ? 'auto' : 'smooth', block: target === passage ? 'start' : 'center' })
  })
}

function AnswerText({ response }: { response: QueryResponse }) {
  const { answer, chunks } = response
  if (!answer) return null
  const cite = (number: number) => {
    const chunk = chunks[number - 1]
    return chunk ? <Cite number={number} id={chunk.id} title={chunk.title} /> : null
  }
  const parts = answer.text.split(/\[(\d+)\](?: +(?=[.,;:!?]))?/)
  const inText = new Set(parts.filter((_, i) => i % 2 === 1).map((text) => chunks[Number(text) - 1]?.id))
  const more = answer.citations
    .filter((id) => !inText.has(id))
    .map((id) => chunks.findIndex((chunk) => chunk.id === id) + 1)
    .filter((number) => number > 0)
  return (
    <p class="words">
      {parts.map((text, i) => (i % 2 === 1 ? cite(Number(text)) : text))}
      {more.map((n) => (
        <> {cite(n)}</>
      ))}
    </p>
  )
}

function AnswerBlock({ response }: { response: QueryResponse }) {
  const { answer } = response
  const confidence = answer?.confidence ?? response.confidence
  const best = answer?.kind === 'best_sentence'
  const sure = typeof confidence === 'number' ? confident(confidence) : undefined
  return (
    <section class="answer" aria-label="Answer">
      <h2>{best ? 'Best extract' : 'Answer'}</h2>
      <AnswerText response={response} />
      {best && (
        <p class="hint">
          {answer.reason ? `${answer.reason}: this` : 'No chat model is set up: this'} is quoted from the passages.
        </p>
      )}
      {sure && typeof confidence === 'number' && (
        <p class={`confidence ${sure.level}`}>
          <svg class="gauge" width="60" height="6" viewBox="0 0 60 6" aria-hidden="true">
            <rect width="60" height="6" rx="3" class="rail" />
            <rect width={60 * confidence} height="6" rx="3" class="fill" />
          </svg>
          {answer?.kind === 'model'
            ? sure.text
            : answer?.kind === 'none' && sure.level !== 'low'
              ? 'The passages fit the question, no sentence in them answers it'
              : `Confidence in the ${answer?.confidence === undefined ? 'passages' : 'quotation'}: ${sure.short}`}{' '}
          <span class="n">({percent(confidence)})</span>
        </p>
      )}
    </section>
  )
}

// Notes are what the answer was written from beside passages, each with the passages that say it.
function Notes({ response }: { response: QueryResponse }) {
  const { notes = [], chunks } = response
  if (notes.length === 0) return null
  return (
    <section aria-label="Notes">
      <h2>Read beside the passages</h2>
      {notes.map((note) => (
        <details>
          <summary>{note.kind === 'facts' ? 'Facts' : cut(note.text, 120)}</summary>
          <p class="text">{note.text}</p>
          <p class="where">
            Said by{' '}
            {chunks.map(
              ({ id, title }, i) => note.sources.flat().includes(id) && <Cite number={i + 1} id={id} title={title} />,
            )}
          </p>
        </details>
      ))}
    </section>
  )
}

function Nothing({ response }: { response: QueryResponse }) {
  return (
    <section class="answer none" aria-label="Answer">
      <h2>{response.reason === 'empty_index' ? 'This index is empty' : 'Nothing here matches the question'}</h2>
      <p>
        {response.reason === 'empty_index' ? (
          'No document is in it. Index a folder, then ask again.'
        ) : (
          <>
            No passage of <b>{response.index}</b> shares a word with it or is similar enough. Say it in other words, or
            look which <a href={href(response.index, 'entities')}>names</a> the index knows.
          </>
        )}
      </p>
    </section>
  )
}

const degradations: Record<string, string> = {
  dense: 'The embedding server does not answer: this was found by words alone.',
  notes_budget: 'A summary or facts are left out: they are longer than the context may be.',
  notes_filter: 'A summary is left out: the filter excludes a document that it rests on.',
  notes_passages: 'A summary or facts are left out: no passage below says them.',
}

function Result({ route, question, response }: { route: Route; question: Question; response: QueryResponse }) {
  const { params, index } = route
  const { chunks, answer, generation } = response
  const picture = params.view === 'picture'
  const cited = new Set(answer?.citations ?? [])
  useEffect(() => {
    if (params.open) focusPassage(params.open)
  }, [])
  const toggle = (id: string): void => follow({ open: params.open === id ? undefined : id }, true)
  const switched = (view: string): string => href(index, 'ask', '', { ...params, view, open: '' })
  const compared = {
    q: question.query,
    a: response.method + (response.rule ? ':' + response.rule : ''),
    generation: question.generation,
  }
  return (
    <>
      {response.degraded.map((what) => (
        <p class="warning">{degradations[what] ?? `Answered without: ${what}`}</p>
      ))}
      {chunks.length === 0 ? <Nothing response={response} /> : answer && <AnswerBlock response={response} />}
      <Notes response={response} />
      <p class="meta run">
        {response.method}
        {response.rule ? ` (${response.rule})` : ''} · {duration((response.timings_ms.total ?? 0) / 1000)}
        {' · generation '}
        <a href={href(index, 'generations', generation)}>{generation}</a>
        {response.usage.prompt_tokens > 0 &&
          ` · ${plural(response.usage.prompt_tokens + response.usage.completion_tokens, 'token')}`}
        {' · '}
        <a href={href(index, 'compare', '', compared)}>Compare methods</a>
        {' · '}
        <a href={href(index, 'bisect', '', params)}>A document is missing?</a>
      </p>
      {chunks.length > 0 && (
        <>
          <div class="switch" role="group" aria-label="View">
            <a href={switched('')} aria-current={picture ? undefined : 'true'}>
              Passages
            </a>
            <a href={switched('picture')} aria-current={picture ? 'true' : undefined}>
              Picture
            </a>
          </div>
          {picture ? (
            <Picture question={question} given={response} />
          ) : (
            <section aria-label="Passages">
              <h2 class="unseen">Passages</h2>
              <ol class="passages">
                {chunks.map((chunk, i) => (
                  <Passage
                    key={chunk.id}
                    index={index}
                    generation={generation}
                    chunk={chunk}
                    number={i + 1}
                    cited={cited.has(chunk.id)}
                    open={params.open === chunk.id}
                    toggle={() => toggle(chunk.id)}
                  />
                ))}
              </ol>
            </section>
          )}
        </>
      )}
    </>
  )
}

function Asked({ route, round }: { route: Route; round: number }) {
  const question = { ...questionOf(route.params), answer: route.params.answer !== 'no' }
  const name = JSON.stringify(question) + round
  const { data, failure, again } = useLoaded(name, (signal) => asked(route.index, question, signal))
  useEffect(() => {
    if (data) say(data.answer ? `Answer: ${data.answer.text}` : `${plural(data.chunks.length, 'passage')} found`)
  }, [data])
  if (failure) {
    const model = failure instanceof Failure && /^(model|endpoint|budget)/.test(failure.code) && question.answer
    return (
      <>
        <Trouble failure={failure} again={again} />
        {model && (
          <p>
            <button type="button" onClick={() => follow({ answer: 'no' })}>
              Show the passages without an answer
            </button>
          </p>
        )}
      </>
    )
  }
  if (!data) return <Loading what="Reading" />
  return <Result route={route} question={questionOf(route.params)} response={data} />
}

// Given is a question that came with a link from elsewhere.
export function Given({ ask }: { ask: () => void }) {
  return (
    <section class="answer none" aria-label="Question of a link">
      <p>This question came with a link. Asking it may cost what the models of this index cost.</p>
      <p>
        <button type="button" class="primary" onClick={ask}>
          Ask it
        </button>
      </p>
    </section>
  )
}

export function Ask({ route }: { route: Route }) {
  const [round, setRound] = useState(0)
  const again = (): void => {
    answers.delete(route.index + JSON.stringify({ ...questionOf(route.params), answer: route.params.answer !== 'no' }))
    setRound((n) => n + 1)
  }
  const question = route.params.q ?? ''
  const asking = question.trim() !== ''
  const ask = (): void => {
    remember(route.index, question)
    again()
  }
  return (
    <>
      <h1 class={asking ? 'unseen' : ''} tabIndex={-1}>
        Ask {route.index}
      </h1>
      <Form route={route} again={again} />
      {!asking ? (
        <Examples index={route.index} />
      ) : mine(route.index, question) ? (
        <Asked route={route} round={round} />
      ) : (
        <Given ask={ask} />
      )}
    </>
  )
}
