// Parts that every view uses.

import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Failure, noteSignedIn, useKey } from './api'
import { ago, when, type Piece } from './format'
import { go, href, parse } from './route'

// say tells a screen reader what happened.
export function say(text: string): void {
  const at = document.getElementById('said')
  if (at) at.textContent = text
}

export interface Loaded<T> {
  data?: T
  failure?: Failure
  loading: boolean
  again: () => void
}

export const failureOf = (err: unknown): Failure =>
  err instanceof Failure ? err : new Failure(-1, 'page', err instanceof Error ? err.message : String(err))

// useLoaded loads something for as long as it is shown; what comes too late for another name is dropped.
export function useLoaded<T>(name: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ name: string; data?: T; failure?: Failure }>({ name: '' })
  const [round, setRound] = useState(0)
  useEffect(() => {
    const ending = new AbortController()
    setState((old) => (old.name === name && !old.failure ? old : { name: '' }))
    load(ending.signal).then(
      (data) => !ending.signal.aborted && setState({ name, data }),
      (err: unknown) => !ending.signal.aborted && setState({ name, failure: failureOf(err) }),
    )
    return () => ending.abort()
  }, [name, round])
  const current: { data?: T; failure?: Failure } = state.name === name ? state : {}
  return {
    ...(current.data !== undefined && { data: current.data }),
    ...(current.failure && { failure: current.failure }),
    loading: state.name !== name,
    again: () => {
      setState({ name: '' })
      setRound((n) => n + 1)
    },
  }
}

// usePolled asks again and again: every two seconds while something moves, then ever more seldom, and not at all while
// nobody looks. After a failure it shows what it had and goes on asking.
export function usePolled<T>(
  name: string,
  load: (signal: AbortSignal) => Promise<T>,
  done: (data: T) => boolean,
): Loaded<T> & { behind?: Failure } {
  const [state, setState] = useState<{ name: string; data?: T; failure?: Failure }>({ name: '' })
  const [round, setRound] = useState(0)
  useEffect(() => {
    const ending = new AbortController()
    let wait = 2000
    let timer = 0
    let seen = ''
    const ask = async (): Promise<void> => {
      if (document.hidden) {
        timer = window.setTimeout(ask, wait)
        return
      }
      let over = false
      try {
        const data = await load(ending.signal)
        if (ending.signal.aborted) return
        setState({ name, data })
        const now = JSON.stringify(data)
        wait = now === seen ? Math.min(wait * 1.5, 30_000) : 2000
        seen = now
        over = done(data)
      } catch (err) {
        if (ending.signal.aborted) return
        const failure = failureOf(err)
        setState((old) => (old.name === name ? { ...old, failure } : { name, failure }))
        wait = Math.max(failure.retryAfter * 1000, Math.min(wait * 2, 30_000))
        over = [400, 401, 403, 410, 422].includes(failure.status)
      }
      if (!over) timer = window.setTimeout(ask, wait)
    }
    void ask()
    return () => {
      ending.abort()
      clearTimeout(timer)
    }
  }, [name, round])
  const current: { data?: T; failure?: Failure } = state.name === name ? state : {}
  return {
    ...(current.data !== undefined && { data: current.data }),
    ...(current.failure && current.data === undefined && { failure: current.failure }),
    ...(current.failure && current.data !== undefined && { behind: current.failure }),
    loading: state.name !== name,
    again: () => setRound((n) => n + 1),
  }
}

export function Loading({ what }: { what: string }) {
  const [late, setLate] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 150)
    return () => clearTimeout(timer)
  }, [])
  return (
    <p class="loading" role="status">
      {late ? (
        <>
          <span class="spinner" aria-hidden="true" />
          {what}…
        </>
      ) : (
        ''
      )}
    </p>
  )
}

interface Advice {
  title: string
  what: ComponentChildren
}

function advice(failure: Failure): Advice {
  const { status, code, hint } = failure
  switch (true) {
    case status === 0:
      return {
        title: 'The server does not answer',
        what: (
          <>
            It may have ended, or the connection to <b>{location.host}</b> is gone. Look whether{' '}
            <code>unweaver dev</code> or <code>unweaver-query-api</code> still runs there, then try again.
          </>
        ),
      }
    case code === 'unknown_generation':
    case status === 410:
      return {
        title: status === 410 ? 'That generation was collected' : 'There is no such generation',
        what: 'Older generations are removed after a while. Ask the current one instead.',
      }
    case status === 404:
      return { title: 'Not found', what: hint || 'The list of indexes tells what there is.' }
    case status === 403:
      return {
        title: 'This is not allowed',
        what: hint || 'The key is for something else. Ask the operator for one that may do this, or use another key.',
      }
    case code === 'budget_spent':
      return { title: 'Today’s budget is spent', what: hint || 'The operator sets how much answers may cost in a day.' }
    case status === 429:
      return { title: 'Too many requests', what: 'The server asks for a pause. What you asked is kept.' }
    case status === 504:
      return { title: 'It took too long', what: 'The server or a store behind it is slow. Try again in a moment.' }
    case code === 'foreign':
      return {
        title: 'Something else answered',
        what: 'Not UnWeaver, but a proxy or another server at this address. Look whether what stands behind it runs.',
      }
    case status === 503:
      return { title: 'The server cannot answer at the moment', what: hint || 'It usually can soon. Try again.' }
    case status === 422 || status === 400:
      return { title: 'The server did not take the question', what: hint }
  }
  return { title: 'Something went wrong', what: hint || 'Try again; if it stays so, the server’s log has the cause.' }
}

// Trouble tells what went wrong and what can be done about it.
export function Trouble({ failure, again }: { failure: Failure; again?: () => void }) {
  const [left, setLeft] = useState(failure.retryAfter)
  useEffect(() => {
    setLeft(failure.retryAfter)
    if (!failure.retryAfter) return
    const timer = setInterval(() => setLeft((n) => Math.max(0, n - 1)), 1000)
    return () => clearInterval(timer)
  }, [failure])
  if (failure.status === 401) return <KeyForm failure={failure} {...(again && { again })} />
  const { title, what } = advice(failure)
  const route = parse(location.hash)
  const { generation, open, ...rest } = route.params
  const pinned = generation !== undefined && (failure.status === 410 || failure.code === 'unknown_generation')
  return (
    <section class="trouble" role="alert">
      <h2>{title}</h2>
      <p>{what}</p>
      {failure.detail && failure.status !== 0 && (
        <p class="detail">{failure.detail.replace(` (${failure.hint})`, '')}</p>
      )}
      {failure.reference && (
        <p class="detail">
          Reference for the operator: <code>{failure.reference}</code>
        </p>
      )}
      <p class="actions">
        {again && (
          <button type="button" onClick={again} disabled={left > 0}>
            {left > 0 ? `Try again in ${left} s` : 'Try again'}
          </button>
        )}
        {pinned && (
          <a class="button" href={href(route.index, route.view, route.id, rest)}>
            Ask the current generation
          </a>
        )}
        {failure.status === 404 && (
          <a class="button" href="#/">
            All indexes
          </a>
        )}
        {failure.status === 403 && (
          <button type="button" onClick={() => forgetKey()}>
            Use another key
          </button>
        )}
      </p>
    </section>
  )
}

export function forgetKey(): void {
  useKey('')
  location.reload()
}

// KeyForm asks for a key. It is kept in this tab alone, until it is closed.
function KeyForm({ failure, again }: { failure: Failure; again?: () => void }) {
  const field = useRef<HTMLInputElement>(null)
  const [refused] = useState(() => sessionStorage.getItem('key') !== null)
  useEffect(() => {
    useKey('')
    noteSignedIn(false)
    field.current?.focus()
  }, [])
  const leave = (): void => {
    sessionStorage.setItem('return', location.hash)
    noteSignedIn(true)
  }
  const submit = (event: Event): void => {
    event.preventDefault()
    const text = field.current?.value.trim() ?? ''
    if (!text) return
    useKey(text)
    dispatchEvent(new Event('key'))
    again?.()
  }
  return (
    <section class="trouble key">
      <h2>
        {refused ? 'That key is not taken' : failure.signIn ? 'Sign in to ask' : 'This server asks for a key'}
      </h2>
      {failure.signIn && (
        <p class="actions">
          <a class="button" href={failure.signIn} onClick={leave}>
            Sign in
          </a>
        </p>
      )}
      <p>
        {refused ? (
          failure.detail
        ) : (
          <>
            The operator makes one with <code>unweaver keys create</code>.
          </>
        )}
      </p>
      <form onSubmit={submit}>
        <label for="key">API key</label>
        <div class="row">
          <input id="key" ref={field} type="password" autocomplete="off" spellcheck={false} required />
          <button class="primary">Use this key</button>
        </div>
        <p class="hint">It stays in this tab and is forgotten when you close it.</p>
      </form>
    </section>
  )
}

export function Marked({ list }: { list: Piece[] }) {
  return <>{list.map((piece) => (piece.marked ? <mark>{piece.text}</mark> : piece.text))}</>
}

export function Figures({ list }: { list: [string, ComponentChildren][] }) {
  return (
    <dl class="figures">
      {list.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

const tones: Record<string, string> = {
  current: 'good',
  published: 'plain',
  held: 'warn',
  damaged: 'bad',
  completed: 'good',
  completed_with_errors: 'warn',
  failed: 'bad',
  cancelled: 'plain',
  running: 'live',
  paused: 'warn',
  waiting: 'warn',
  ready: 'good',
  ok: 'good',
  opening: 'live',
  behind: 'warn',
}

export function State({ name }: { name: string }) {
  return <span class={`state ${tones[name] ?? 'plain'}`}>{name.replaceAll('_', ' ')}</span>
}

// Chooser is a select whose value is part of the address.
export function Chooser(props: {
  label: string
  value: string
  choices: [string, string][]
  onChange: (value: string) => void
}) {
  return (
    <label class="chooser">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.choices.map(([value, text]) => (
          <option value={value} selected={value === props.value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}

// useWidth measures an element, so that drawings are laid out in its real pixels.
export function useWidth(otherwise: number): [{ current: HTMLDivElement | null }, number] {
  const at = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(otherwise)
  useEffect(() => {
    if (!at.current) return
    const watcher = new ResizeObserver((entries) => {
      const now = entries[0]?.contentRect.width
      if (now) setWidth(Math.round(now))
    })
    watcher.observe(at.current)
    return () => watcher.disconnect()
  }, [])
  return [at, width]
}

// follow changes some parameters of the present address.
export function follow(changes: Record<string, string | undefined>, quietly = false): void {
  const route = parse(location.hash)
  go(href(route.index, route.view, route.id, { ...route.params, ...changes }), quietly)
}

// Narrow is a form that narrows a list by a parameter of the address, a moment after the last letter.
export function Narrow({ label, param, value }: { label: string; param: string; value: string }) {
  const [text, setText] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => text !== value && follow({ [param]: text, cursor: '' }, true), 200)
    return () => clearTimeout(timer)
  }, [text])
  return (
    <form role="search" onSubmit={(event) => event.preventDefault()}>
      <label for="narrow">{label}</label>
      <input
        id="narrow"
        type="search"
        value={text}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </form>
  )
}

// Table is a table of rows of cells. Columns of numbers begin with #. On a narrow screen each row is a block whose cells
// carry the names of their columns; the roles keep it a table for a screen reader.
export function Table({ label, columns, rows }: { label: string; columns: string[]; rows: ComponentChildren[][] }) {
  const names = columns.map((name) => name.replace('#', ''))
  const kind = (i: number): string | undefined => (columns[i]?.startsWith('#') ? 'n' : undefined)
  return (
    <table class="rows" role="table" aria-label={label}>
      <thead role="rowgroup">
        <tr role="row">
          {names.map((name, i) => (
            <th role="columnheader" scope="col" class={kind(i)}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((cells) => (
          <tr role="row">
            {cells.map((cell, i) => (
              <td role="cell" class={kind(i)} data-name={i > 0 ? names[i] : undefined}>
                {cell}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

// Age is how long ago something was, with the time itself for a pointer that rests on it.
export function Age({ time }: { time: string | undefined }) {
  return <span title={when(time)}>{ago(time)}</span>
}
