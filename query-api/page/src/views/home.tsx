// The indexes, as cards.

import { api, type Card, type IndexInfo } from '../api'
import { ago, bytes, count, plural, when } from '../format'
import { href } from '../route'
import { Loading, State, Trouble, useLoaded } from '../ui'

interface Known extends Card {
  deadLetters?: number
}

// known completes a card from the list of generations where the server has no route for it.
async function known(info: IndexInfo, signal: AbortSignal): Promise<Known> {
  const card = await api.card(info.index, signal)
  if (card) return { ...info, ...card }
  const { items: generations } = await api.generations(info.index, signal)
  const current = generations.find((generation) => generation.state === 'current')
  if (!current) return info
  return { ...info, published: current.created, deadLetters: current.dead_letters }
}

const publishedAt = (card: Known): string | undefined => card.published ?? card.created

// wrong says of an index what is not as it should be; nothing where all is well. One is closed until it is asked.
const wrong = (card: Known): string =>
  [card.serving, card.state].find((state) => state && !['ready', 'closed', 'published', 'current', 'ok'].includes(state)) ?? ''

function IndexCard({ info }: { info: IndexInfo }) {
  const { data } = useLoaded('card ' + info.index + info.generation, (signal) => known(info, signal))
  const card: Known = data ?? info
  const problems = card.problems ?? card.deadLetters ?? 0
  const published = publishedAt(card)
  return (
    <li class="card">
      <div class="head">
        <h2>
          <a href={href(card.index, 'ask')}>{card.index}</a>
        </h2>
        {wrong(card) && <State name={wrong(card)} />}
      </div>
      <p class="age" title={when(published)}>
        {ago(published) === '–' ? '\u00a0' : `Published ${ago(published)}`}
      </p>
      <dl class="figures three">
        <div>
          <dt>documents</dt>
          <dd>{count(card.documents)}</dd>
        </div>
        <div>
          <dt>passages</dt>
          <dd>{count(card.chunks)}</dd>
        </div>
        <div>
          <dt>entities</dt>
          <dd>{count(card.classes)}</dd>
        </div>
      </dl>
      <p class="meta">
        Generation <a href={href(card.index, 'generations', card.generation ?? '')}>{card.generation}</a>
        {card.bytes !== undefined && ` · ${bytes(card.bytes)}`}
        {card.models?.embedding && ` · ${card.models.embedding}`}
      </p>
      {problems > 0 && (
        <p class="warning">
          <a href={href(card.index, 'generations', card.generation ?? '')}>{plural(problems, 'problem')}</a> in this
          generation
        </p>
      )}
      <p class="actions">
        <a class="button primary" href={href(card.index, 'ask')} aria-label={`Ask ${card.index}`}>
          Ask
        </a>
        <a class="button" href={href(card.index, 'documents')} aria-label={`Documents of ${card.index}`}>
          Documents
        </a>
        <a class="button" href={href(card.index, 'entities')} aria-label={`Entities of ${card.index}`}>
          Entities
        </a>
        <a class="button" href={href(card.index, 'runs')} aria-label={`Runs of ${card.index}`}>
          Runs
        </a>
      </p>
    </li>
  )
}

export function Home() {
  const { data, failure, again } = useLoaded('indexes', (signal) => api.indexes(signal))
  if (failure) return <Trouble failure={failure} again={again} />
  if (!data) return <Loading what="Asking for the indexes" />
  if (data.items.length === 0) {
    return (
      <section class="empty">
        <h1 tabIndex={-1}>No index yet</h1>
        <p>Build the first one from a folder of documents. It is published here when it is done.</p>
        <pre>
          <code>unweaver index FOLDER --index docs --wait</code>
        </pre>
        <p class="meta">With a key that is for one index alone, only that one is shown.</p>
        <p class="actions">
          <button type="button" onClick={again}>
            Look again
          </button>
        </p>
      </section>
    )
  }
  return (
    <>
      <h1 tabIndex={-1}>Indexes</h1>
      <ul class="cards">
        {data.items.map((info) => (
          <IndexCard key={info.index} info={info} />
        ))}
      </ul>
    </>
  )
}
