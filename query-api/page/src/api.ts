// What the server says, as far as the page reads it. Fields that an older server does not send are optional; the page
// shows what is there.

export interface IndexInfo {
  index: string
  generation: string
  release: number
  documents: number
  chunks: number
  classes: number
  models?: Models
}

export interface Models {
  chat?: string
  embedding?: string
}

export interface Card extends Partial<IndexInfo> {
  index: string
  state?: string
  serving?: string
  bytes?: number
  created?: string
  published?: string | null
  age_seconds?: number
  problems?: number
  enriched?: string[]
}

export interface Generation {
  generation: string
  seq: number
  state: string
  created: string
  documents: number
  chunks: number
  classes: number
  dead_letters: number
  content_hash: string
  models: string
}

export interface Span {
  start: number
  end: number
}

// Rect is a part of a page, in points from the page's upper left corner.
export interface Rect {
  page: number
  left: number
  top: number
  right: number
  bottom: number
  page_width: number
  page_height: number
}

export interface Chunk {
  id: string
  document: string
  version: string
  stale?: boolean
  title: string
  metadata: Record<string, string>
  ordinal: number
  start: number
  end: number
  text: string
  heading?: string[]
  page?: number
  page_end?: number
  rects?: Rect[]
  snippet?: Span & { text: string }
  highlights?: Span[]
  markup?: Span[]
  score: number
  similarity: number | null
  bm25: number | null
  rank: number
  filled: boolean
  in_context: boolean
  entities: { id: string; name: string }[]
}

export interface Entity {
  id: string
  name: string
  score: number
  similarity: number
  rank: number
  chunks: string[]
  chunk_total: number
}

export interface Answer {
  text: string
  citations: string[]
  confidence?: number
  kind?: string
  reason?: string
}

// Note is what the chat model reads beside passages; sources are ids of passages, by statement.
export interface Note {
  kind: string
  text: string
  sources: string[][]
}

export interface QueryResponse {
  index: string
  generation: string
  release: number | null
  reason_text?: string
  method: string
  rule: string | null
  reason: string | null
  degraded: string[]
  confidence?: number | null
  chunks: Chunk[]
  entities: Entity[]
  notes?: Note[]
  answer: Answer | null
  explain?: unknown
  usage: { embedding_tokens: number; prompt_tokens: number; completion_tokens: number }
  timings_ms: Record<string, number>
  models: string
}

export interface EntitySummary {
  id: string
  name: string
  type?: string
  chunk_total: number
}

export interface EntityDetail extends EntitySummary {
  generation: string
  description: string
  mentions: number
}

export interface DocumentText {
  generation: string
  document: string
  version: string
  stale?: boolean
  title: string
  start: number
  end: number
  length: number
  text: string
  markup?: Span[]
}

export interface Counted {
  extract: number
  shorten: number
  embed: number
}

export interface Problem {
  code: string
  object: string
  detail?: string
}

// Run is a report with what runs now; of a list, some of it.
export interface Run {
  index?: string
  generation?: string
  run: string
  kind?: string
  status: string
  reason?: string
  detail?: string
  stage?: string
  overall?: number
  stages?: { name: string; done: number; total: number; seconds: number }[]
  documents?: number
  chunks?: number
  classes?: number
  mentions?: number
  calls?: Counted
  ledger_hits?: Counted
  tokens?: { prompt: number; completion: number; embedding: number }
  cost?: number
  currency?: string
  seconds?: number
  eta_seconds?: number | null
  rate?: number
  models?: Models
  diff?: Record<string, number>
  problems?: Problem[] | number // of a list: how many
  problems_total?: number
  gone?: boolean // of a list: its report is gone
  documents_failed?: number
  chunks_failed?: number
  stale?: number
  estimate?: Record<string, { low: number; high: number }>
  waiting?: { since: string; next: string; tries: number }
  started?: string
  ended?: string
  published?: boolean
  unchanged?: boolean
  next?: string[]
  watched?: Watched
}

export interface Change {
  change: string
  object: string
}

export interface WatchedAnswer {
  passages: { document: string; chunk: string }[]
  quote: string
}

// Watched is what a night found by standing questions.
export interface Watched {
  questions: number
  asked: number
  same: number
  changed: number
  since?: string
  failed?: number
  problem?: string
  path?: string
  listed?: {
    id: string
    question: string
    labels?: string[]
    before: WatchedAnswer
    after: WatchedAnswer
    because: Change[]
  }[]
}

// Night is a build that ended, in a few figures.
export interface Night {
  run: string
  generation: string
  status: string
  reason?: string
  published: boolean
  unchanged?: boolean
  started: string
  seconds: number
  documents: number
  chunks: number
  changed: number
  share: number
  calls: number
  tokens: number
  cost: number
  currency?: string
  failed: number
  dead_letters: number
  bytes: number
  planned: { calls: number; tokens: number; cost: number; seconds: number } | null
}

export interface Trends {
  index: string
  nights: Night[]
  totals: Record<string, number>
}

interface Probe {
  generation: string
  rank: number
  top: number
}

// Bisected is the night that took a document away from a question.
export interface Bisected {
  good: Probe
  bad: Probe
  causes: { text: string; confirmed: boolean }[]
  ranking: { document: string; before: number; after: number; expected: boolean; change: string }[]
  notices: string[]
  questions: number
  tokens: number
}

// Failure is why a request brought nothing. Status 0: nobody answered.
export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly hint = '',
    readonly retryAfter = 0,
    readonly reference = '',
    readonly signIn = '', // where the page signs in at an identity provider; empty: nowhere
  ) {
    super(detail)
  }
}

const stored = 'key'

export const key = (): string => sessionStorage.getItem(stored) ?? ''
export const useKey = (text: string): void => {
  if (text) sessionStorage.setItem(stored, text)
  else sessionStorage.removeItem(stored)
}

const signed = 'signed-in'

// isSignedIn reports whether this browser has signed in. The session itself is in a cookie that no script reads.
export const isSignedIn = (): boolean => localStorage.getItem(signed) !== null
export const noteSignedIn = (yes: boolean): void => {
  if (yes) localStorage.setItem(signed, '1')
  else localStorage.removeItem(signed)
}

// signOut ends the session of this browser, or throws a Failure.
export async function signOut(): Promise<void> {
  await send('oidc/logout', {})
  noteSignedIn(false)
  location.reload()
}

async function failureOf(response: Response): Promise<Failure> {
  const signIn = /\bsign_in="([a-z/]+)"/.exec(response.headers.get('WWW-Authenticate') ?? '')?.[1] ?? ''
  const after = Number(response.headers.get('Retry-After') ?? 0) || 0
  try {
    const told = await response.json()
    if (told && typeof told === 'object' && typeof told.status === 'number') {
      const text = (value: unknown): string => (typeof value === 'string' ? value : '')
      return new Failure(
        response.status,
        text(told.code),
        text(told.detail) || text(told.title),
        text(told.hint),
        after,
        text(told.reference),
        signIn,
      )
    }
  } catch {
    // What is no JSON is not from UnWeaver.
  }
  return new Failure(response.status, 'foreign', `status ${response.status} ${response.statusText}`.trim(), '', after)
}

// call asks the server for JSON, and throws a Failure.
export async function call<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(path, body, signal)
  try {
    return (await response.json()) as T
  } catch (err) {
    if (signal?.aborted) throw err
    throw new Failure(0, 'broken', 'the answer broke off')
  }
}

// save asks for a file and has the browser keep it: a link would not send the key.
export async function save(path: string, name: string): Promise<void> {
  const at = URL.createObjectURL(await (await send(path)).blob())
  const link = document.createElement('a')
  link.href = at
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(at), 60_000)
}

// send asks the server. Paths are relative to the page, so that it may stand below a prefix.
async function send(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {}
  if (key()) headers.Authorization = 'Bearer ' + key()
  if (body !== undefined) headers['Content-Type'] = 'application/json'
  const limit = AbortSignal.timeout(body === undefined ? 30_000 : 130_000)
  let response: Response
  try {
    response = await fetch(path, {
      method: body === undefined ? 'GET' : 'POST',
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      redirect: 'error',
    })
  } catch (err) {
    if (signal?.aborted) throw err
    throw limit.aborted
      ? new Failure(504, 'timeout', 'the server took too long')
      : new Failure(0, 'gone', 'nobody answers at ' + location.host)
  }
  if (!response.ok) throw await failureOf(response)
  return response
}

const part = encodeURIComponent
const query = (given: Record<string, string | number | undefined>): string => {
  const out = new URLSearchParams()
  for (const [name, value] of Object.entries(given))
    if (value !== undefined && value !== '') out.set(name, String(value))
  const text = out.toString()
  return text ? '?' + text : ''
}
const at = (index: string, rest = ''): string => `v1/indexes/${part(index)}${rest}`

// missing turns "there is no such route or thing" into nothing; an index that is not there is trouble.
export const missing = (err: unknown): undefined => {
  if (err instanceof Failure && err.status === 404 && err.code !== 'unknown_index') return undefined
  throw err
}

export interface Page<T> {
  items: T[]
  next_cursor?: string
}

// Memory is what enrichment gem made: themes, and the chunks of the largest loadings of each.
export interface Memory {
  index: string
  generation: string
  chunks: number
  shown: number
  questions: number
  graph: string
  values: number[]
  residuals: number[]
  estimated: number
  themes: MemoryTheme[]
}

export interface MemoryTheme {
  theme: number
  lambda: number
  beta: number
  summary: string
  questions: string[]
  chunks: MemoryChunk[]
}

export interface MemoryChunk {
  id: string
  document: string
  ordinal: number
  start: number
  end: number
  loading: number
  degree: number
  member: boolean
  question: string
}

export interface Question {
  query: string
  method?: string
  rule?: string
  top_chunks?: number
  generation?: string
  answer?: boolean
  explain?: boolean
}

export const api = {
  indexes: (signal?: AbortSignal) => call<Page<IndexInfo>>('v1/indexes?limit=1000', undefined, signal),
  card: (index: string, signal?: AbortSignal) => call<Card>(at(index), undefined, signal).catch(missing),
  generations: (index: string, signal?: AbortSignal) =>
    call<Page<Generation>>(at(index, '/generations?limit=1000'), undefined, signal),
  generation: (index: string, name: string, signal?: AbortSignal) =>
    call<Record<string, unknown>>(at(index, '/generations/' + part(name)), undefined, signal).catch(missing),
  ask: (index: string, question: Question, signal?: AbortSignal) =>
    call<QueryResponse>(at(index, '/query'), question, signal),
  bisect: (index: string, body: unknown, signal?: AbortSignal) => call<Bisected>(at(index, '/bisect'), body, signal),
  entities: (index: string, given: Record<string, string | number>, signal?: AbortSignal) =>
    call<Page<EntitySummary> & { generation: string }>(
      at(index, '/entities' + query(given)),
      undefined,
      signal,
    ),
  entity: (index: string, id: string, generation: string, signal?: AbortSignal) =>
    call<EntityDetail>(at(index, `/entities/${part(id)}` + query({ generation })), undefined, signal),
  mentions: (index: string, id: string, generation: string, cursor: string, signal?: AbortSignal) =>
    call<Page<Chunk> & { chunk_total: number }>(
      at(index, `/entities/${part(id)}/chunks` + query({ generation, cursor, limit: 50 })),
      undefined,
      signal,
    ),
  text: (index: string, document: string, generation: string, start: number, end: number, signal?: AbortSignal) =>
    call<DocumentText>(
      at(index, `/documents/${document.split('/').map(part).join('/')}/text` + query({ generation, start, end })),
      undefined,
      signal,
    ),
  documents: (index: string, prefix: string, cursor: string, generation: string, signal?: AbortSignal) =>
    call<Page<Record<string, unknown>>>(
      at(index, '/documents' + query({ prefix, cursor, generation, limit: 50 })),
      undefined,
      signal,
    ).catch(missing),
  runs: (index: string, cursor: string, signal?: AbortSignal) =>
    call<Page<Run>>(at(index, '/runs' + query({ cursor, limit: 50 })), undefined, signal).catch(missing),
  trends: (index: string, signal?: AbortSignal) => call<Trends>(at(index, '/trends'), undefined, signal),
  memory: (index: string, generation: string, signal?: AbortSignal) =>
    call<Memory>(at(index, '/memory' + query({ generation })), undefined, signal),
  report: (index: string, run: string) => at(index, `/runs/${part(run)}/report`),
  run: (index: string, run: string, signal?: AbortSignal) =>
    call<Run>(at(index, '/runs/' + part(run)), undefined, signal).catch(missing),
}
