// One passage: where it stands, what matched, and all of it when it is opened.

import { useLayoutEffect, useRef } from 'preact/hooks'
import type { Chunk } from '../api'
import { address, brief, cut, pieces, shifted } from '../format'
import { Prose } from '../prose'
import { href } from '../route'
import { Marked } from '../ui'
import { Sheets } from './sheets'

export function Place({ chunk }: { chunk: Chunk }) {
  const pages =
    chunk.page === undefined
      ? ''
      : chunk.page_end !== undefined && chunk.page_end !== chunk.page
        ? `pages ${chunk.page}–${chunk.page_end}`
        : `page ${chunk.page}`
  return (
    <>
      {chunk.heading && chunk.heading.length > 0 && <span class="heading">{chunk.heading.join(' › ')}</span>}
      {pages && <span class="page">{pages}</span>}
    </>
  )
}

export function documentHref(index: string, generation: string, chunk: Chunk): string {
  return href(index, 'documents', chunk.document, { generation, start: chunk.start, end: chunk.end })
}

// spoken is what matched of a passage, else the passage, as plain words.
export function spoken({ snippet, text, markup = [] }: Chunk): string {
  const list = pieces(snippet?.text ?? text, [], shifted(markup, snippet?.start ?? 0))
  return list.map((piece) => piece.text).join('').replace(/\s+/g, ' ').trim()
}

// Snippet is what the server says matched; without that, the beginning.
function Snippet({ chunk }: { chunk: Chunk }) {
  const { snippet } = chunk
  if (!snippet) return <p class="snippet">{cut(spoken(chunk), 280)}</p>
  const marks = shifted(chunk.highlights ?? [], snippet.start)
  const length = Array.from(chunk.text).length
  return (
    <p class="snippet">
      {snippet.start > 0 && '… '}
      <Marked
        list={pieces(
          snippet.text,
          marks.filter((mark) => mark.end > 0),
          shifted(chunk.markup ?? [], snippet.start),
        )}
      />
      {snippet.end < length && ' …'}
    </p>
  )
}

// Whole is all of a chunk's text: words that matched are marked, and the sentences that the snippet chose are set apart
// and in sight. A long one scrolls, so that what belongs to the passage stays near.
function Whole({ chunk }: { chunk: Chunk }) {
  const { text, snippet, highlights = [], markup = [] } = chunk
  const box = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    const target = box.current?.querySelector('.sentence') ?? box.current?.querySelector('mark')
    if (!box.current || !target) return
    const above = target.getBoundingClientRect().top - box.current.getBoundingClientRect().top
    box.current.scrollTop = above - box.current.clientHeight / 3
  }, [])
  return (
    <div class="text" ref={box} tabIndex={0} role="region" aria-label="Text of the passage">
      <Prose text={text} marks={highlights} sentences={snippet ? [snippet] : []} hidden={markup} top={3} />
    </div>
  )
}

function Metadata({ metadata }: { metadata: Record<string, string> }) {
  const list = Object.entries(metadata)
  if (list.length === 0) return null
  return (
    <dl class="metadata">
      {list.map(([name, value]) => {
        const to = address(value)
        return (
          <div>
            <dt>{name}</dt>
            <dd>
              {to ? (
                <a href={to} rel="noopener noreferrer" target="_blank">
                  {value}
                </a>
              ) : (
                value
              )}
            </dd>
          </div>
        )
      })}
    </dl>
  )
}

export function Passage(props: {
  index: string
  generation: string
  chunk: Chunk
  number: number
  cited: boolean
  open: boolean
  toggle: () => void
}) {
  const { index, generation, chunk, number, cited, open, toggle } = props
  const close = (event: KeyboardEvent): void => {
    if (event.key !== 'Escape' || !open) return
    event.stopPropagation()
    toggle()
  }
  const body = 'text-' + chunk.id
  return (
    <li class={`passage${open ? ' open' : ''}${cited ? ' cited' : ''}`} id={'passage-' + chunk.id} onKeyDown={close}>
      <h3>
        <button type="button" class="plain" aria-expanded={open} aria-controls={body} onClick={toggle}>
          <span class="number">{number}</span>
          <span class="title">{chunk.title || chunk.document}</span>
        </button>
      </h3>
      <p class="where">
        <Place chunk={chunk} />
        <a class="key" href={documentHref(index, generation, chunk)}>
          {brief(chunk.document)}
        </a>
        {cited && <span class="badge">cited</span>}
        {chunk.stale && (
          <span class="badge warn" title="The document cannot be read now">
            earlier version
          </span>
        )}
        {chunk.filled && (
          <span class="badge" title="Not ranked by the method: the next most similar">
            filled up
          </span>
        )}
      </p>
      <div id={body}>
        {open ? (
          <>
            <Whole chunk={chunk} />
            <Sheets rects={chunk.rects} />
            <Metadata metadata={chunk.metadata} />
            {chunk.entities.length > 0 && (
              <p class="tags">
                <span class="label">Found through</span>
                {chunk.entities.map((entity) => (
                  <a href={href(index, 'entities', entity.id, { generation })}>{entity.name}</a>
                ))}
              </p>
            )}
            <p class="meta">
              Score {chunk.score.toPrecision(3)}
              {chunk.similarity !== null && ` · similarity ${chunk.similarity.toFixed(3)}`}
              {chunk.bm25 !== null && ` · BM25 ${chunk.bm25.toFixed(2)}`}
              {!chunk.in_context && ' · not in the context of the answer'}
              {' · '}
              <a href={documentHref(index, generation, chunk)}>In its document</a>
            </p>
          </>
        ) : (
          <Snippet chunk={chunk} />
        )}
      </div>
    </li>
  )
}
