// Documents, and the text of one with a passage marked in it.

import { useEffect, useRef } from 'preact/hooks'
import { api } from '../api'
import { brief, count, plural, shifted, short } from '../format'
import { Prose } from '../prose'
import { href, type Route } from '../route'
import { Age, follow, Loading, Narrow, Table, Trouble, useLoaded } from '../ui'

const text = (value: unknown): string => (typeof value === 'string' ? value : '')
const figure = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined)

export function Documents({ route }: { route: Route }) {
  const { index, params } = route
  const generation = params.generation ?? ''
  const name = `documents ${index} ${generation} ${params.prefix ?? ''} ${params.cursor ?? ''}`
  const { data, failure, loading, again } = useLoaded(name, (signal) =>
    api.documents(index, params.prefix ?? '', params.cursor ?? '', generation, signal),
  )
  return (
    <>
      <h1 tabIndex={-1}>Documents</h1>
      <Narrow label="Keys that begin with" param="prefix" value={params.prefix ?? ''} />
      {failure && <Trouble failure={failure} again={again} />}
      {loading && <Loading what="Asking for the documents" />}
      {!loading && !failure && !data && (
        <p>This server does not list documents. Those that an answer rests on are linked from its passages.</p>
      )}
      {data && data.items.length === 0 && <p>No document’s key begins so.</p>}
      {data && data.items.length > 0 && (
        <Table
          label="Documents"
          columns={['Document', '#Passages', '#Characters', 'Modified']}
          rows={data.items.map((item) => {
            const key = text(item.document) || text(item.key)
            return [
              <>
                <a href={href(index, 'documents', key, { generation })}>{text(item.title) || key}</a>
                <p class="where">
                  {text(item.title) && text(item.title) !== key && <span class="key">{brief(key)}</span>}
                  {text(item.type) && <span>{text(item.type)}</span>}
                  {text(item.problem) && <span class="badge warn">{text(item.problem).replaceAll('_', ' ')}</span>}
                  {item.stale === true && <span class="badge warn">earlier version</span>}
                </p>
              </>,
              item.problem && !item.chunks ? '–' : count(figure(item.chunks)),
              count(figure(item.length)),
              <Age time={text(item.modified)} />,
            ]
          })}
        />
      )}
      {data?.next_cursor && (
        <p class="actions">
          <a class="button" href={href(index, 'documents', '', { ...params, cursor: data.next_cursor })}>
            Next page
          </a>
        </p>
      )}
    </>
  )
}

const margin = 4000 // code points shown before and after a passage
const whole = 20_000 // shown of a document that was opened at no passage

export function DocumentView({ route }: { route: Route }) {
  const { index, id, params } = route
  const start = Number(params.start) || 0
  const end = Number(params.end) || 0
  const from = Number(params.from ?? Math.max(0, start - margin)) || 0
  const to = Number(params.to ?? (end > 0 ? end + margin : from + whole)) || from + whole
  const generation = params.generation ?? ''
  const { data, failure, again } = useLoaded(`text ${index} ${id} ${generation} ${from} ${to}`, (signal) =>
    api.text(index, id, generation, from, to, signal),
  )
  const at = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (end > start && !params.from && !params.to)
      at.current?.querySelector('mark')?.scrollIntoView({ block: 'center' })
  }, [data === undefined])
  if (failure) return <Trouble failure={failure} again={again} />
  if (!data) return <Loading what="Reading the document" />
  return (
    <>
      <p class="up">
        <a href={href(index, 'documents', '', { generation })}>Documents</a>
      </p>
      <h1 tabIndex={-1}>{data.title || data.document}</h1>
      <p class="where">
        <span class="key">{brief(data.document)}</span>
        <span>{plural(data.length, 'character')}</span>
        <span>
          version <code title={data.version}>{short(data.version)}</code>
        </span>
        <span>
          generation <a href={href(index, 'generations', data.generation)}>{data.generation}</a>
        </span>
        {data.stale && <span class="badge warn">earlier version: the document cannot be read now</span>}
      </p>
      {data.start > 0 && (
        <p class="actions">
          <button
            type="button"
            onClick={() => follow({ from: String(Math.max(0, from - whole)), to: String(to) }, true)}
          >
            Show what comes before
          </button>
        </p>
      )}
      <div class="text document" ref={at}>
        <Prose text={data.text} marks={end > start ? shifted([{ start, end }], data.start) : []} hidden={data.markup ?? []} />
      </div>
      {data.end < data.length && (
        <p class="actions">
          <button type="button" onClick={() => follow({ from: String(from), to: String(data.end + whole) }, true)}>
            Show what follows
          </button>
        </p>
      )}
    </>
  )
}
