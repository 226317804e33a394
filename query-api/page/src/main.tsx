// The page: a frame with navigation, and the view that the address names.

import { render } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { api, isSignedIn, key, signOut, type Failure } from './api'
import { href, useRoute, type Route } from './route'
import { failureOf, forgetKey, Trouble, useLoaded } from './ui'
import { Ask } from './views/ask'
import { Bisect } from './views/bisect'
import { Compare } from './views/compare'
import { DocumentView, Documents } from './views/documents'
import { EntityView, Entities } from './views/entities'
import { GenerationView, Generations } from './views/generations'
import { Home } from './views/home'
import { RunView, Runs } from './views/runs'
import { Themes } from './views/themes'

const tabs: [string, string][] = [
  ['ask', 'Ask'],
  ['compare', 'Compare'],
  ['entities', 'Entities'],
  ['themes', 'Themes'],
  ['documents', 'Documents'],
  ['generations', 'Generations'],
  ['runs', 'Runs'],
]

const themes = ['auto', 'light', 'dark'] as const
type Theme = (typeof themes)[number]

function storedTheme(): Theme {
  const given = localStorage.getItem('theme')
  return themes.find((theme) => theme === given) ?? 'auto'
}

const showTheme = (theme: Theme): void => {
  if (theme === 'auto') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

function ThemeButton() {
  const [theme, setTheme] = useState(storedTheme)
  const next = themes[(themes.indexOf(theme) + 1) % themes.length] ?? 'auto'
  const change = (): void => {
    localStorage.setItem('theme', next)
    showTheme(next)
    setTheme(next)
  }
  return (
    <button type="button" class="theme" onClick={change} aria-label={`Colours: ${theme}. Change to ${next}`}>
      <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
        <circle cx="10" cy="10" r="7" fill="none" stroke="currentColor" stroke-width="1.8" />
        <path d="M10 3a7 7 0 0 1 0 14z" fill="currentColor" />
      </svg>
      <span>{theme}</span>
    </button>
  )
}

function View({ route }: { route: Route }) {
  const { index, view, id } = route
  if (!index) return <Home />
  const name = index + '/' + view + '/' + id
  switch (view) {
    case 'ask':
      return <Ask key={index} route={route} />
    case 'bisect':
      return <Bisect key={index} route={route} />
    case 'compare':
      return <Compare key={index} route={route} />
    case 'entities':
      return id ? <EntityView key={name} route={route} /> : <Entities key={name} route={route} />
    case 'themes':
      return <Themes key={name} route={route} />
    case 'documents':
      return id ? <DocumentView key={name} route={route} /> : <Documents key={name} route={route} />
    case 'generations':
      return id ? <GenerationView key={name} route={route} /> : <Generations key={name} route={route} />
    case 'runs':
      return id ? <RunView key={name} route={route} /> : <Runs key={name} route={route} />
  }
  return (
    <section class="trouble" role="alert">
      <h1 tabIndex={-1}>There is no such view</h1>
      <p>
        The address names “{view}”. <a href={href(index, 'ask')}>Ask {index}</a> or <a href="#/">see all indexes</a>.
      </p>
    </section>
  )
}

// Switch shows the name of the index, and lets one change to another where there are several.
function Switch({ route }: { route: Route }) {
  const { data } = useLoaded('indexes' + route.index, (signal) => api.indexes(signal))
  const names = data?.items.map((info) => info.index) ?? []
  if (!names.some((name) => name !== route.index)) return <span class="here">{route.index}</span>
  if (!names.includes(route.index)) names.unshift(route.index)
  return (
    <select
      class="here"
      aria-label="Index"
      value={route.index}
      onChange={(event) => {
        location.hash = href(event.currentTarget.value, route.id ? 'ask' : route.view)
      }}
    >
      {names.map((name) => (
        <option value={name} selected={name === route.index}>
          {name}
        </option>
      ))}
    </select>
  )
}

// Tabs of an index. That of themes is for one that has some.
function Tabs({ index, view: now }: { index: string; view: string }) {
  const { data } = useLoaded('card ' + index, (signal) => api.card(index, signal))
  const themes = now === 'themes' || data?.enriched?.includes('gem')
  return (
    <nav aria-label={'Index ' + index}>
      {tabs
        .filter(([view]) => view !== 'themes' || themes)
        .map(([view, text]) => (
          <a href={href(index, view)} aria-current={view === now ? 'page' : undefined}>
            {text}
          </a>
        ))}
    </nav>
  )
}

function Frame() {
  const route = useRoute()
  const main = useRef<HTMLElement>(null)
  const place = `${route.index}/${route.view}/${route.id}`
  const before = useRef(place)
  const [stays, setStays] = useState<Failure>() // why the session did not end
  const tab = tabs.find(([view]) => view === route.view)
  useLayoutEffect(() => {
    const parts = [
      route.params.q,
      route.id && route.view !== 'documents' ? '' : route.id,
      tab?.[1],
      route.index,
      'UnWeaver',
    ]
    document.title = parts.filter(Boolean).join(' · ')
  })
  useEffect(() => {
    if (before.current === place) return
    before.current = place
    scrollTo(0, 0)
    const target = main.current?.querySelector<HTMLElement>('[data-autofocus], h1')
    ;(target ?? main.current)?.focus()
  }, [place])
  const toMain = (event: Event): void => {
    event.preventDefault() // the # belongs to the address of the view
    main.current?.focus()
    main.current?.scrollIntoView()
  }
  return (
    <>
      <a class="skip" href="#main" onClick={toMain}>
        Skip to the content
      </a>
      <header class="top">
        <div class="bar">
          <a class="brand" href="#/">
            <img src="page/icon.svg" alt="" width="26" height="26" />
            UnWeaver
          </a>
          {route.index && (
            <>
              <span class="slash" aria-hidden="true">
                /
              </span>
              <Switch route={route} />
            </>
          )}
          <ThemeButton />
        </div>
        {route.index && <Tabs index={route.index} view={route.view} />}
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {stays && <Trouble failure={stays} />}
        <View route={route} />
      </main>
      <footer>
        {!key() ? (
          <>
            <a href="openapi.json">OpenAPI</a>
            <a class="open" href="metrics">
              Metrics
            </a>
            <a class="open" href="readyz">
              Readiness
            </a>
            {isSignedIn() && (
              <button
                type="button"
                class="plain"
                onClick={() => void signOut().catch((err: unknown) => setStays(failureOf(err)))}
              >
                Sign out
              </button>
            )}
          </>
        ) : (
          <button type="button" class="plain" onClick={forgetKey}>
            Forget the key
          </button>
        )}
      </footer>
      <div id="said" class="unseen" aria-live="polite" />
    </>
  )
}

// Root starts anew when a key was given, so that everything is asked for with it.
function Root() {
  const [round, setRound] = useState(0)
  useEffect(() => {
    const given = (): void => setRound((n) => n + 1)
    addEventListener('key', given)
    return () => removeEventListener('key', given)
  }, [])
  return <Frame key={round} />
}

// After signing in the page opens where it was left.
const left = sessionStorage.getItem('return')
sessionStorage.removeItem('return')
if (left?.startsWith('#') && !location.hash) location.replace(left)

showTheme(storedTheme())
const root = document.getElementById('root')
if (root) render(<Root />, root)
