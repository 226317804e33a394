// From an explanation to a picture: what came from the question through which entity to which passage. Widths are the
// server's own figures; nothing is estimated here. What the explanation does not divide is drawn as lines of one width.

import type { QueryResponse } from './api'

export interface Source {
  id: string // of an entity, or empty
  name: string
  start: number // share of what the question starts with, of what is shown
  arrives: number // share of all that reaches the passages shown
}

export interface Ribbon {
  source: number
  chunk: number
  amount: number // share of all that reaches the passages shown
  share: number // of what reaches this passage
}

export interface Flow {
  measure: string // what a width is a share of
  start: string // what a width at the left is a share of
  caption: string
  exact: boolean
  sources: Source[]
  chunks: { id: string; amount: number }[]
  ribbons: Ribbon[]
}

interface Part {
  id: string
  name: string
  chunk: number
  amount: number
}

interface Start {
  id: string
  name: string
  weight: number
}

const direct = '\u0000direct'
const small = '\u0000small' // shares that the server told as one sum
const most = 11

const numberOf = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) ? Math.max(0, value) : 0

// assemble adds up parts by source, keeps the largest and puts the others together, so that sums stay what they are.
function assemble(
  response: QueryResponse,
  parts: Part[],
  starts: Start[],
  words: Omit<Flow, 'sources' | 'chunks' | 'ribbons'>,
): Flow {
  const total = parts.reduce((sum, part) => sum + part.amount, 0) || 1
  const begun = starts.reduce((sum, start) => sum + start.weight, 0) || 1
  const found = new Map<string, Source>()
  const of = (id: string, name: string): Source => {
    const known = found.get(id) ?? { id, name, start: 0, arrives: 0 }
    found.set(id, known)
    return known
  }
  for (const part of parts) of(part.id, part.name).arrives += part.amount / total
  for (const start of starts) of(start.id, start.name).start += start.weight / begun
  const ranked = [...found.values()]
    .filter((source) => source.id !== small)
    .sort((a, b) => b.arrives - a.arrives || b.start - a.start)
  const kept = ranked.slice(0, ranked.length > most + 1 ? most : ranked.length)
  const rest = [...ranked.slice(kept.length), ...[...found.values()].filter((source) => source.id === small)]
  const place = new Map(kept.map((source, i) => [source.id, i]))
  if (rest.length > 0) {
    const sum = (pick: (source: Source) => number): number => rest.reduce((all, source) => all + pick(source), 0)
    kept.push({ id: '', name: 'other entities', start: sum((s) => s.start), arrives: sum((s) => s.arrives) })
  }
  const amounts = response.chunks.map(() => 0)
  const ribbons = new Map<string, Ribbon>()
  for (const part of parts) {
    if (part.amount <= 0) continue
    const source = place.get(part.id) ?? kept.length - 1
    const name = `${source} ${part.chunk}`
    const ribbon = ribbons.get(name) ?? { source, chunk: part.chunk, amount: 0, share: 0 }
    ribbon.amount += part.amount / total
    ribbons.set(name, ribbon)
    amounts[part.chunk] = (amounts[part.chunk] ?? 0) + part.amount / total
  }
  for (const ribbon of ribbons.values()) ribbon.share = ribbon.amount / (amounts[ribbon.chunk] || 1)
  return {
    ...words,
    sources: kept.map((source) => (source.id.startsWith('\u0000') ? { ...source, id: '' } : source)),
    chunks: response.chunks.map((chunk, i) => ({ id: chunk.id, amount: amounts[i] ?? 0 })),
    ribbons: [...ribbons.values()],
  }
}

interface HybridChunk {
  id: string
  mass: number
  seed: number
  plain_share: number
  class_shares: { id: string; name: string; share: number }[]
  rest_share: number
}

function hybrid(
  response: QueryResponse,
  explain: { entities?: { id: string; name: string; seed: number }[]; chunks: HybridChunk[] },
): Flow {
  const parts: Part[] = []
  const names = new Map((explain.entities ?? []).map((entity) => [entity.id, entity.name]))
  const starts: Start[] = (explain.entities ?? []).map(({ id, name, seed }) => ({ id, name, weight: numberOf(seed) }))
  response.chunks.forEach((chunk, i) => {
    const told = explain.chunks.find((one) => one.id === chunk.id)
    if (!told) return
    const mass = numberOf(told.mass)
    starts.push({ id: direct, name: 'direct match', weight: numberOf(told.seed) })
    parts.push({ id: direct, name: 'direct match', chunk: i, amount: mass * numberOf(told.plain_share) })
    for (const { id, name, share } of told.class_shares ?? []) {
      parts.push({ id, name: names.get(id) ?? name, chunk: i, amount: mass * numberOf(share) })
    }
    parts.push({ id: small, name: '', chunk: i, amount: mass * numberOf(told.rest_share) })
  })
  return assemble(
    response,
    parts.filter((part) => part.amount > 0),
    starts,
    {
      exact: true,
      measure: 'of the mass',
      start: 'of the start',
      caption:
        'The walk starts from entities and passages that match the question (left: their weight in the start; a direct ' +
        'match is a passage that starts by itself) and ends with a mass on every passage. Right: the exact share of ' +
        'that mass which arrived through each entity. An ' +
        'entity without a ribbon at its left was reached by the walk alone.',
    },
  )
}

// voting is for rules where each voter of a passage adds the same to its score.
function voting(
  response: QueryResponse,
  values: Map<string, { value: number; voters: string[] }>,
  exact: boolean,
  words: string,
): Flow {
  const names = new Map(response.entities.map((entity) => [entity.id, entity.name]))
  const parts: Part[] = []
  response.chunks.forEach((chunk, i) => {
    const told = values.get(chunk.id)
    if (!told) return
    for (const id of told.voters) {
      parts.push({ id, name: names.get(id) ?? id, chunk: i, amount: told.value / told.voters.length })
    }
    if (told.voters.length === 0) parts.push({ id: small, name: '', chunk: i, amount: told.value })
  })
  const starts = [...new Set(parts.map((part) => part.id))]
    .filter((id) => id !== small)
    .map((id) => ({
      id,
      name: names.get(id) ?? id,
      weight: numberOf(response.entities.find((entity) => entity.id === id)?.similarity),
    }))
  return assemble(response, parts, starts, {
    exact,
    measure: exact ? 'of the score' : 'of the votes',
    start: 'of the similarity',
    caption: words,
  })
}

function aligned(response: QueryResponse, explain: { entities: { id: string; kept: boolean }[] }): Flow {
  const kept = new Set(explain.entities.filter((entity) => entity.kept).map((entity) => entity.id))
  const known = new Map(response.entities.map((entity) => [entity.id, entity]))
  const parts: Part[] = []
  response.chunks.forEach((chunk, i) => {
    for (const { id, name } of chunk.entities) {
      if (kept.has(id)) parts.push({ id, name, chunk: i, amount: numberOf(known.get(id)?.score) })
    }
  })
  const starts = response.entities
    .filter((entity) => kept.has(entity.id))
    .map(({ id, name, similarity }) => ({ id, name, weight: numberOf(similarity) }))
  return assemble(response, parts, starts, {
    exact: true,
    measure: 'of the strength',
    start: 'of the similarity',
    caption:
      'A passage’s score is the sum of the strengths of the entities that it mentions. Left: how similar each ' +
      'entity is to the question.',
  })
}

function plain(response: QueryResponse): Flow {
  const parts = response.chunks.map((_, i) => ({
    id: direct,
    name: response.method === 'bm25' ? 'words' : 'similarity',
    chunk: i,
    amount: numberOf(response.chunks[i]?.score),
  }))
  return assemble(response, parts, [{ id: direct, name: '', weight: 1 }], {
    exact: true,
    measure: 'of the scores',
    start: 'of the question',
    caption: 'This method compares the question with each passage and looks at no entities. Widths are scores.',
  })
}

// flowOf reads the explanation of any method.
export function flowOf(response: QueryResponse): Flow {
  const explain = (response.explain ?? {}) as any
  if (Array.isArray(explain.chunks) && explain.chunks.some((chunk: HybridChunk) => chunk?.class_shares)) {
    return hybrid(response, explain)
  }
  if (Array.isArray(explain.seats)) {
    const seats = new Map<string, { value: number; voters: string[] }>(
      explain.seats.map((seat: { id: string; voters: string[] }) => [
        seat.id,
        { value: seat.voters.length, voters: seat.voters },
      ]),
    )
    return voting(
      response,
      seats,
      false,
      'An election: a line for each entity that a passage represents, all of one ' +
        'width, as the rule looks at the committee as a whole. Left: how similar each entity is to the question.',
    )
  }
  if (
    Array.isArray(explain.entities) &&
    explain.entities.some((entity: { kept?: boolean }) => entity?.kept !== undefined)
  ) {
    return aligned(response, explain)
  }
  if (typeof explain.votes === 'number') {
    return voting(
      response,
      voters(response, (chunk) => numberOf(chunk.score)),
      true,
      'The entities most similar to the ' +
        'question vote for the passages that mention them. Every voter of a passage adds the same to its score. Left: how ' +
        'similar each entity is to the question.',
    )
  }
  if (Array.isArray(explain.seeds)) return ppr(response, explain)
  return plain(response)
}

type Voted = Map<string, { value: number; voters: string[] }>

const voters = (response: QueryResponse, value: (chunk: QueryResponse['chunks'][number]) => number): Voted =>
  new Map(
    response.chunks.map((chunk) => [
      chunk.id,
      { value: value(chunk), voters: chunk.entities.map((entity) => entity.id) },
    ]),
  )

// ppr tells the mass of passages, and not through which entities it came: the mass is exact, the lines only say who
// mentions what.
function ppr(response: QueryResponse, explain: { seeds: { id: string; score: number }[] }): Flow {
  const flow = voting(
    response,
    voters(response, (chunk) => numberOf(chunk.score)),
    false,
    'A walk from the entities most ' +
      'similar to the question (left: their share of the start). The height of a passage is its exact share of the mass. ' +
      'This method does not tell through which entity the mass came: lines say which of them a passage mentions.',
  )
  const seeds = new Map(explain.seeds.map((seed) => [seed.id, numberOf(seed.score)]))
  return {
    ...flow,
    measure: 'of the mass',
    start: 'of the start',
    sources: flow.sources.map((source) => ({ ...source, start: seeds.get(source.id) ?? source.start })),
  }
}
