// The themes of an index as columns: a bar for each passage, as long as its loading.

import { useState } from 'preact/hooks'
import { api, type Memory, type MemoryChunk, type MemoryTheme } from '../api'
import { count, cut, percent, plural } from '../format'
import { href, type Route } from '../route'
import { Figures, Loading, say, Trouble, useLoaded } from '../ui'

// first is how many bars of a column are shown before somebody asks for all.
const first = 8

const name = (theme: MemoryTheme): string => (theme.theme === 0 ? 'Overview' : `Theme ${theme.theme}`)

function Bar({ chunk, most, index, generation }: { chunk: MemoryChunk; most: number; index: string; generation: string }) {
  const share = most > 0 ? chunk.loading / most : 0
  const { start, end } = chunk
  return (
    <li class={chunk.member ? 'member' : undefined}>
      <a href={href(index, 'documents', chunk.document, { generation, start, end })}>
        <svg width="100%" height="8" aria-hidden="true">
          <rect class="rail" width="100%" height="8" rx="2" />
          <rect class="fill" width={`${Math.max(1, 100 * share)}%`} height="8" rx="2" />
        </svg>
        <span class="words">{cut(chunk.question.replace(/\s+/g, ' '), 140)}</span>
        <span class="from">
          {chunk.document}
          <span class="n">
            {chunk.member ? 'summarised · ' : ''}
            {chunk.loading.toFixed(3)}
          </span>
        </span>
      </a>
    </li>
  )
}

function Column({ theme, memory }: { theme: MemoryTheme; memory: Memory }) {
  const [all, setAll] = useState(false)
  const shown = all ? theme.chunks : theme.chunks.slice(0, first)
  const rest = theme.chunks.length - shown.length
  const id = 'theme-' + theme.theme
  const more = (): void => {
    setAll(true)
    say(`All ${plural(theme.chunks.length, 'passage')} of ${name(theme)} are shown`)
  }
  return (
    <section class={`column k${theme.theme % 5}`} aria-labelledby={id}>
      <h2 id={id}>{name(theme)}</h2>
      <p class="meta" title={`eigenvalue ${theme.lambda}`}>
        λ {theme.lambda.toFixed(3)}
        {theme.theme === 0 ? ', how central passages are' : `, ${percent(theme.beta)} of the first`}
      </p>
      {theme.summary && <p class="summary">{theme.summary}</p>}
      <ol aria-label={`Passages of ${name(theme)}, the largest loading first`}>
        {shown.map((chunk) => (
          <Bar
            chunk={chunk}
            most={theme.chunks[0]?.loading ?? 0}
            index={memory.index}
            generation={memory.generation}
          />
        ))}
      </ol>
      {rest > 0 && (
        <p>
          <button type="button" onClick={more}>
            {count(rest)} more
          </button>
        </p>
      )}
    </section>
  )
}

// None says how an index comes to have themes.
function None({ index }: { index: string }) {
  return (
    <div class="empty">
      <h1 tabIndex={-1}>No themes</h1>
      <p>
        Themes are what passages have in common, found by the questions that each of them answers. This index was built
        without them.
      </p>
      <p>To have them, set in unweaver.yaml:</p>
      <pre>
        <code>{`indexes:\n  ${index}:\n    enrich: [gem]`}</code>
      </pre>
      <p>and build it again:</p>
      <pre>
        <code>unweaver index FOLDER --index {index} --wait</code>
      </pre>
    </div>
  )
}

export function Themes({ route }: { route: Route }) {
  const { index, params } = route
  const generation = params.generation ?? ''
  const { data, failure, again } = useLoaded(`memory ${index} ${generation}`, (signal) =>
    api.memory(index, generation, signal),
  )
  if (failure) return failure.status === 422 ? <None index={index} /> : <Trouble failure={failure} again={again} />
  if (!data) return <Loading what="Asking for the themes" />
  return (
    <>
      <h1 tabIndex={-1}>Themes</h1>
      <p class="lead">
        What passages have in common, by the questions that they answer. A bar is as long as the passage belongs to the
        theme; it leads to the passage.
      </p>
      <Figures
        list={[
          ['themes', count(data.themes.length)],
          ['passages', count(data.chunks)],
          ['questions', count(data.questions)],
        ]}
      />
      {data.themes.length === 0 ? (
        <p>There are too few passages for themes.</p>
      ) : (
        <>
          <div class="themes">
            {data.themes.map((theme) => (
              <Column theme={theme} memory={data} />
            ))}
          </div>
          {data.shown < data.chunks && (
            <p class="meta">{`${count(data.shown)} of ${plural(data.chunks, 'passage')} are shown.`}</p>
          )}
        </>
      )}
    </>
  )
}
