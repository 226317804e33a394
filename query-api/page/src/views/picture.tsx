// The picture of one answer: question → entities → passages.

import { api, type Question, type QueryResponse } from '../api'
import { flowOf, type Flow } from '../flow'
import { cut, percent } from '../format'
import { href, parse } from '../route'
import { follow, Loading, Trouble, useLoaded, useWidth } from '../ui'

const bar = 10
const gap = 9
const least = 15 // of a bar, so that its name has room

interface Box {
  y: number
  height: number
}

// stack puts boxes below each other and gives their places.
function stack(heights: number[], total: number): Box[] {
  const used = heights.reduce((sum, height) => sum + height + gap, -gap)
  let y = Math.max(0, (total - used) / 2)
  return heights.map((height) => {
    const box = { y, height }
    y += height + gap
    return box
  })
}

const ribbonPath = (x0: number, y0: number, x1: number, y1: number, h0: number, h1: number): string => {
  const middle = (x0 + x1) / 2
  return (
    `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}L${x1} ${y1 + h1}` +
    `C${middle} ${y1 + h1} ${middle} ${y0 + h0} ${x0} ${y0 + h0}Z`
  )
}

interface Layout {
  height: number
  sources: Box[]
  chunks: Box[]
  left: { d: string; source: number }[]
  right: { d: string; ribbon: number }[]
  question: Box
  columns: [number, number, number]
}

function layout(flow: Flow, width: number): Layout {
  const narrow = width < 620
  const scale = narrow ? 190 : 250 // pixels of everything
  const columns: [number, number, number] = [
    0,
    Math.round(width * (narrow ? 0.3 : 0.34)),
    Math.round(width * (narrow ? 0.84 : 0.66)),
  ]
  const sourceHeights = flow.sources.map((s) => Math.max(least, s.arrives * scale, s.start * scale))
  const chunkHeights = flow.chunks.map((c) => Math.max(narrow ? least : 2 * least, c.amount * scale))
  const tall = (heights: number[]): number => heights.reduce((sum, height) => sum + height + gap, -gap)
  const height = Math.max(tall(sourceHeights), tall(chunkHeights), scale)
  const sources = stack(sourceHeights, height)
  const chunks = stack(chunkHeights, height)
  const question = { y: (height - scale) / 2, height: scale }
  let from = question.y
  const left = flow.sources.flatMap((source, i) => {
    const wide = source.start * scale
    const box = sources[i]
    if (wide <= 0 || !box) return []
    const d = ribbonPath(columns[0] + bar, from, columns[1], box.y, wide, wide)
    from += wide
    return [{ d, source: i }]
  })
  const leaving = sources.map((box) => box.y)
  const entering = chunks.map((box) => box.y)
  const right = flow.ribbons
    .map((ribbon, at) => ({ ribbon, at }))
    .sort((a, b) => a.ribbon.source - b.ribbon.source || a.ribbon.chunk - b.ribbon.chunk)
    .map(({ ribbon, at }) => {
      const wide = ribbon.amount * scale
      const y0 = leaving[ribbon.source] ?? 0
      const y1 = entering[ribbon.chunk] ?? 0
      leaving[ribbon.source] = y0 + wide
      entering[ribbon.chunk] = y1 + wide
      return { d: ribbonPath(columns[1] + bar, y0, columns[2], y1, wide, wide), ribbon: at }
    })
  return { height, sources, chunks, left, right, question, columns }
}

// named says what is seen, and all of it where that was cut.
const named = (shown: string, whole: string): string => (shown === whole ? whole : `${shown} (${whole})`)

function Drawing({ response, flow, width }: { response: QueryResponse; flow: Flow; width: number }) {
  const { height, sources, chunks, left, right, question, columns } = layout(flow, width)
  const narrow = width < 620
  const nameLength = narrow ? 14 : 26
  const room = Math.max(8, Math.floor((width - columns[2] - bar - 34) / 7.2))
  return (
    <svg
      class="flow"
      width={width}
      height={height + 26}
      viewBox={`0 -22 ${width} ${height + 26}`}
      role="group"
      aria-label="From the question through entities to passages; the table below says the same"
    >
      <text x="0" y="-8" class="column">
        Question
      </text>
      <text x={columns[1]} y="-8" class="column">
        Entities
      </text>
      <text x={columns[2] + bar} y="-8" class="column" text-anchor={narrow ? 'end' : 'start'}>
        Passages
      </text>
      <rect class="q" x={columns[0]} y={question.y} width={bar} height={question.height} rx="2" />
      {left.map(({ d, source }) => (
        <path class="ribbon start" d={d}>
          <title>{`${flow.sources[source]?.name}: ${percent(flow.sources[source]?.start ?? 0)} ${flow.start}`}</title>
        </path>
      ))}
      {right.map(({ d, ribbon }) => {
        const told = flow.ribbons[ribbon]
        if (!told) return null
        const text = `${flow.sources[told.source]?.name} → [${told.chunk + 1}]: ${percent(told.share)} of the passage’s`
        return (
          <path class={`ribbon c${told.chunk % 5}`} d={d} data-share={told.share} data-chunk={told.chunk}>
            <title>{text}</title>
          </path>
        )
      })}
      {flow.sources.map((source, i) => {
        const box = sources[i]
        if (!box) return null
        const shown = cut(source.name, nameLength)
        const label = (
          <>
            <rect class="entity" x={columns[1]} y={box.y} width={bar} height={box.height} rx="2" />
            <text x={columns[1] + bar + 5} y={box.y + Math.min(box.height / 2, 40) + 4}>
              {shown}
            </text>
          </>
        )
        return source.id ? (
          <a
            href={href(response.index, 'entities', source.id, { generation: response.generation })}
            aria-label={`${named(shown, source.name)}, entity: ${percent(source.arrives)} ${flow.measure}`}
          >
            {label}
          </a>
        ) : (
          <g>{label}</g>
        )
      })}
      {response.chunks.map((chunk, i) => {
        const box = chunks[i]
        if (!box) return null
        const open = (event: Event): void => {
          event.preventDefault()
          follow({ view: undefined, open: chunk.id }, true)
        }
        const share = `${percent(flow.chunks[i]?.amount ?? 0)} ${flow.measure}`
        const title = narrow ? '' : ' ' + cut(chunk.title, room)
        const y = box.y + Math.min(box.height / 2, 40)
        return (
          <g>
            <a
              href={href(response.index, 'ask', '', { ...parse(location.hash).params, view: '', open: chunk.id })}
              onClick={open}
              aria-label={`${named(`[${i + 1}]${title}`, `[${i + 1}] ${chunk.title}`)}, passage: ${share}`}
            >
              <rect class={`chunk c${i % 5}`} x={columns[2]} y={box.y} width={bar} height={box.height} rx="2" />
              <text x={columns[2] + bar + 6} y={y + (narrow ? 4 : -2)}>
                <tspan class="number">[{i + 1}]</tspan>
                {title}
              </text>
            </a>
            {!narrow && (
              <text class="share" x={columns[2] + bar + 6} y={y + 13}>
                {share}
              </text>
            )}
          </g>
        )
      })}
    </svg>
  )
}

function Table({ response, flow }: { response: QueryResponse; flow: Flow }) {
  return (
    <details class="fold">
      <summary>As a table</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="Shares as a table">
        <table>
          <thead>
            <tr>
              <th scope="col">Entity</th>
              <th scope="col" class="n">
                {flow.start}
              </th>
              {response.chunks.map((_, i) => (
                <th scope="col" class="n">
                  [{i + 1}]
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {flow.sources.map((source, i) => (
              <tr>
                <th scope="row">{source.name}</th>
                <td class="n">{source.start > 0 ? percent(source.start) : '–'}</td>
                {response.chunks.map((_, chunk) => {
                  const ribbon = flow.ribbons.find((one) => one.source === i && one.chunk === chunk)
                  return <td class="n">{ribbon ? percent(ribbon.share) : '–'}</td>
                })}
              </tr>
            ))}
            <tr class="sum">
              <th scope="row">Passage, {flow.measure}</th>
              <td />
              {flow.chunks.map((chunk) => (
                <td class="n">{percent(chunk.amount)}</td>
              ))}
            </tr>
          </tbody>
        </table>
      </div>
      {!flow.exact && (
        <p class="hint">Shares within a passage are equal by construction: they only say who is in it.</p>
      )}
    </details>
  )
}

// sentence says in words where the best passage has most of it from.
function sentence(flow: Flow): string {
  const parts = flow.ribbons
    .filter((ribbon) => ribbon.chunk === 0)
    .sort((a, b) => b.share - a.share)
    .slice(0, 2)
  if (parts.length === 0 || !flow.exact) return ''
  const said = parts.map((ribbon) => {
    const source = flow.sources[ribbon.source]
    return `${percent(ribbon.share)} ${source?.id ? `through “${source.name}”` : `by ${source?.name}`}`
  })
  return (
    `Of what reaches the passages shown, [1] has ${percent(flow.chunks[0]?.amount ?? 0)}: ${said.join(', ')}` +
    `${parts[0]?.share === 1 ? '.' : ' …'}`
  )
}

// Picture asks the same question once more, for the explanation alone: no model writes an answer for it.
export function Picture({ question, given }: { question: Question; given: QueryResponse }) {
  const asked = { ...question, generation: given.generation, answer: false, explain: true }
  const [at, width] = useWidth(720)
  const { data, failure, again } = useLoaded('explain ' + JSON.stringify(asked), (signal) =>
    api.ask(given.index, asked, signal),
  )
  const flow = data && flowOf(data)
  return (
    <section class="picture" aria-label="Picture of this answer">
      <div ref={at} class="measure" />
      {failure && <Trouble failure={failure} again={again} />}
      {!failure && !data && <Loading what="Asking where the scores come from" />}
      {data &&
        flow &&
        (data.chunks.length === 0 ? (
          <p>Nothing was found, so there is nothing to draw.</p>
        ) : (
          <>
            {sentence(flow) && <p class="lead">{sentence(flow)}</p>}
            <Drawing response={data} flow={flow} width={width} />
            <p class="hint">{flow.caption}</p>
            <Table response={data} flow={flow} />
          </>
        ))}
    </section>
  )
}
