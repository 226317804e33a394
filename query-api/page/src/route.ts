// Every state of the page has an address. It stands behind the #, so that questions get into no server's log.
//   #/                              indexes
//   #/covid/ask?q=…&method=…        a question with its answer
//   #/covid/entities/ID             one entity

import { useEffect, useState } from 'preact/hooks'

export interface Route {
  index: string
  view: string
  id: string
  params: Record<string, string>
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export function parse(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s)
  const [index = '', view = '', ...rest] = path.split('/').map(decoded)
  return {
    index,
    view: index && !view ? 'ask' : view,
    id: rest.join('/'),
    params: Object.fromEntries(new URLSearchParams(search)),
  }
}

export function href(
  index: string,
  view = '',
  id = '',
  params: Record<string, string | number | undefined> = {},
): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(params))
    if (value !== undefined && value !== '') search.set(name, String(value))
  const path = [index, view, id]
    .filter((text) => text !== '')
    .map(encodeURIComponent)
    .join('/')
  const text = search.toString()
  return '#/' + path + (text ? '?' + text : '')
}

// go changes the address; quietly, it makes no entry in the history and does not move the focus.
export function go(to: string, quietly = false): void {
  if (to === location.hash) return
  if (!quietly) {
    location.hash = to
    return
  }
  history.replaceState(null, '', to)
  dispatchEvent(new HashChangeEvent('hashchange'))
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parse(location.hash))
  useEffect(() => {
    const changed = (): void => setRoute(parse(location.hash))
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [])
  return route
}
