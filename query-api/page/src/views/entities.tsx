// What an index knows by name, and where each is mentioned.

import { useState } from 'preact/hooks'
import { api, Failure, type Chunk, type Page } from '../api'
import { brief, count, pieces, plural, type Piece } from '../format'
import { href, type Route } from '../route'
import { Chooser, Figures, follow, Loading, Marked, Narrow, Table, Trouble, useLoaded } from '../ui'
import { documentHref, Place, spoken } from './passage'

export function Entities({ route }: { route: Route }) {
  const { index, params } = route
  const { contains = '', generation = '', cursor = '', order = 'passages', type = '' } = params
  const { data, failure, again } = useLoaded(JSON.stringify(['entities', index, params]), (signal) =>
    api.entities(index, { contains, order, cursor, generation, type, limit: 50 }, signal),
  )
  const typed = type !== '' || data?.items.some((entity) => entity.type)
  return (
    <>
      <h1 tabIndex={-1}>Entities</h1>
      <p class="lead">Persons, places, things and terms that passages mention.</p>
      <div class="narrow">
        <Narrow label="Names that contain" param="contains" value={contains} />
        {typed && <Narrow label="Type" param="type" value={type} />}
        <Chooser
          label="Order"
          value={order === 'name' ? order : ''}
          choices={[
            ['', 'most passages first'],
            ['name', 'by name'],
          ]}
          onChange={(value) => follow({ order: value, cursor: '' }, true)}
        />
      </div>
      {failure ? (
        <Trouble failure={failure} again={again} />
      ) : !data ? (
        <Loading what="Looking up" />
      ) : data.items.length === 0 ? (
        <p>
          {contains ? (
            <>No name contains “{contains}”.</>
          ) : type ? (
            <>No entity has type “{type}”.</>
          ) : (
            'Nothing was extracted from these documents.'
          )}
        </p>
      ) : (
        <>
          <Table
            label="Entities"
            columns={typed ? ['Name', 'Type', '#Passages'] : ['Name', '#Passages']}
            rows={data.items.map((entity) => [
              <a href={href(index, 'entities', entity.id, { generation })}>{entity.name}</a>,
              ...(typed ? [entity.type ?? ''] : []),
              count(entity.chunk_total),
            ])}
          />
          {data.next_cursor && (
            <p class="actions">
              <a class="button" href={href(index, 'entities', '', { ...params, cursor: data.next_cursor })}>
                Next page
              </a>
            </p>
          )}
        </>
      )}
    </>
  )
}

// around returns whole words near the first place where a name stands, with the name marked.
function around(chunk: Chunk, name: string): Piece[] {
  const flat = spoken(chunk)
  const found = Math.max(0, flat.toLowerCase().indexOf(name.toLowerCase()))
  const from = found > 90 ? flat.indexOf(' ', found - 90) + 1 : 0
  const end = found + name.length + 130
  const to = end < flat.length ? flat.lastIndexOf(' ', end) : flat.length
  const part = (from > 0 ? '… ' : '') + flat.slice(from, to) + (to < flat.length ? ' …' : '')
  const at = part.toLowerCase().indexOf(name.toLowerCase(), found - from)
  if (at < 0) return [{ text: part, marked: false }]
  const start = Array.from(part.slice(0, at)).length
  return pieces(part, [{ start, end: start + Array.from(name).length }])
}

function Mentions({ index, id, name, generation }: { index: string; id: string; name: string; generation: string }) {
  const [more, setMore] = useState<Page<Chunk>>()
  const [trouble, setTrouble] = useState<Failure>()
  const { data, failure, again } = useLoaded(`mentions ${index} ${id} ${generation}`, (signal) =>
    api.mentions(index, id, generation, '', signal),
  )
  if (failure) return <Trouble failure={failure} again={again} />
  if (!data) return <Loading what="Looking for mentions" />
  const shown = more ?? data
  const next = async (): Promise<void> => {
    try {
      const page = await api.mentions(index, id, generation, shown.next_cursor ?? '')
      setMore({ ...page, items: [...shown.items, ...page.items] })
      setTrouble(undefined)
    } catch (err) {
      if (err instanceof Failure) setTrouble(err)
    }
  }
  const documents = Map.groupBy(shown.items, (chunk) => chunk.document)
  return (
    <section aria-label="Mentions">
      <h2>
        Mentioned in {plural(documents.size, 'document')}
        {shown.next_cursor ? ' so far' : ''}
      </h2>
      <ul class="mentions">
        {[...documents].map(([document, chunks]) => (
          <li>
            <h3>{chunks[0]?.title || document}</h3>
            <ul>
              {chunks.map((chunk) => (
                <li>
                  <p class="snippet">
                    <Marked list={around(chunk, name)} />
                  </p>
                  <p class="where">
                    <Place chunk={chunk} />
                    <a class="key" href={documentHref(index, generation, chunk)}>
                      {brief(chunk.document)}
                    </a>
                  </p>
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ul>
      {trouble && <Trouble failure={trouble} again={() => void next()} />}
      {shown.next_cursor && !trouble && (
        <p class="actions">
          <button type="button" onClick={() => void next()}>
            Show more
          </button>
        </p>
      )}
    </section>
  )
}

export function EntityView({ route }: { route: Route }) {
  const { index, id, params } = route
  const generation = params.generation ?? ''
  const { data, failure, again } = useLoaded(`entity ${index} ${id} ${generation}`, (signal) =>
    api.entity(index, id, generation, signal),
  )
  if (failure) return <Trouble failure={failure} again={again} />
  if (!data) return <Loading what="Looking up" />
  return (
    <>
      <p class="up">
        <a href={href(index, 'entities', '', { generation })}>Entities</a>
      </p>
      <h1 tabIndex={-1}>{data.name}</h1>
      {data.type && <p class="lead">{data.type}</p>}
      {data.description && <p class="description">{data.description}</p>}
      <Figures
        list={[
          ['passages', count(data.chunk_total)],
          ['mentions', count(data.mentions)],
        ]}
      />
      <p class="actions">
        <a class="button" href={href(index, 'ask', '', { q: `What is known about ${data.name}?` })}>
          Ask about it
        </a>
      </p>
      <Mentions index={index} id={id} name={data.name} generation={data.generation} />
    </>
  )
}
