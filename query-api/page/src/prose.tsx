// A text of a document as people read it: headings, lists, code, tables and paragraphs. Every place of it is still a
// place of the document, so that marks stand where they belong. It is made of elements, never of markup.

import type { ComponentChildren } from 'preact'
import type { Places } from './format'

interface Block {
  kind: 'text' | 'item' | 'code' | 'head' | 'row' | 'page'
  from: number
  to: number
  lines: [number, number][]
  level: number // of a heading, or of how far an item is indented
  titled?: boolean // a row with a line of dashes below
}

const bullet = /^(\s*)(?:[-*+•]|\d{1,3}(?:\.\d{1,3})*[.)])\s/
const columns = /\S(?:\t| {3,})\s*\S/
const field = /^\s*[\p{L}-]+: /u
const prose = /(?:\p{L}+[,;]? ){4}/u


// Text is the code points of a text, what is shown in their place, and what is hidden of them.
class Text {
  readonly points: string[]
  readonly shown: string[]
  readonly blocks: Block[] = []
  private readonly hidden: Uint8Array

  constructor(text: string, hidden: Places) {
    this.points = Array.from(text)
    this.shown = [...this.points]
    this.hidden = new Uint8Array(this.points.length)
    for (const { start, end } of hidden) {
      this.hidden.fill(1, Math.max(start, 0), Math.max(end, 0))
      this.shown.fill('', Math.max(start, 0), Math.max(end, 0))
    }
    this.split()
    for (const block of this.blocks) if (block.kind === 'text' || block.kind === 'item') this.join(block)
  }

  private split(): void {
    let fenced = false
    let apart = true // the next line begins a block
    for (let from = 0; from < this.points.length; ) {
      const at = this.points.indexOf('\n', from)
      const to = at < 0 ? this.points.length : at
      const raw = this.points.slice(from, to).join('')
      const mark = raw.trim()
      const bare = mark !== '' && this.shown.slice(from, to).join('').trim() === ''
      const last = this.blocks[this.blocks.length - 1]
      if (bare && /^(```|~~~)/.test(mark)) {
        fenced = !fenced
        apart = true
      } else if (fenced) {
        this.add('code', from, to, 0, apart)
        apart = false
      } else if (/^( {4}|\t)\s*\S/.test(raw) && (apart ? last?.kind !== 'item' : last?.kind === 'code')) {
        this.add('code', from, to, 0, apart)
        apart = false
      } else if (bare && !apart && last?.kind === 'row') {
        last.titled = true
      } else if (bare && !apart && last?.lines.length === 1 && /^(=+|-+)$/.test(mark)) {
        last.kind = 'head'
        last.level = mark.startsWith('=') ? 1 : 2
        apart = true
      } else if (bare || mark === '') {
        if (raw.includes('\f') && last) this.add('page', from, to, 0, true)
        apart = true
      } else if (mark.startsWith('#') && this.hidden[from]) {
        this.add('head', from, to, mark.search(/[^#]/), true)
        apart = true
      } else if (mark.startsWith('|') && this.hidden[from + raw.indexOf('|')]) {
        this.add('row', from, to, apart ? 1 : 0, true)
        apart = false
      } else {
        const item = bullet.exec(raw)
        if (item && '-*+'.includes(mark[0] ?? '')) this.shown[from + item[1]!.length] = '•'
        this.add(item ? 'item' : 'text', from, to, (item?.[1] ?? '').length, apart || !!item || last?.kind === 'row' || last?.kind === 'code')
        apart = false
      }
      from = to + 1
    }
  }

  private add(kind: Block['kind'], from: number, to: number, level: number, begin: boolean): void {
    const last = this.blocks[this.blocks.length - 1]
    if (begin || !last) this.blocks.push({ kind, from, to, lines: [[from, to]], level })
    else {
      last.lines.push([from, to])
      last.to = to
    }
  }

  // join takes ends of lines out of a paragraph where only its width broke it: the next word had no room, or the sentence
  // goes on.
  private join({ lines, kind }: Block): void {
    const shown = lines.map(([from, to]) => this.shown.slice(from, to).join(''))
    const width = Math.max(...lines.map(([from, to]) => to - from))
    for (let i = 0; i + 1 < lines.length; i++) {
      const [one, next] = [shown[i]!, shown[i + 1]!]
      const word = /^\S+/.exec(next.trim())?.[0] ?? ''
      const said = prose.test(one) || prose.test(next)
      const full = said && width >= (lines.length > 3 ? 40 : 60) && one.length + 1 + word.length > 0.85 * width
      const goesOn = prose.test(one) && /[\p{L},-]$/u.test(one) && /^\p{Ll}+[,.:]?$/u.test(word)
      const hangs = kind === 'item' && /^\s/.test(next)
      if (columns.test(one) || columns.test(next) || field.test(next) || / {2}$/.test(one) || (!hangs && ((!full && !goesOn) || /^\s/.test(next)))) continue
      const parted = /\p{L}-$/u.test(one) && /^\p{Ll}/u.test(word)
      this.shown[lines[i]![1]] = parted ? '' : ' '
      const indent = next.length - next.trimStart().length
      this.shown.fill('', lines[i + 1]![0], lines[i + 1]![0] + indent)
    }
  }

  // cells are the places of a row's cells, between its bars.
  cells({ from, to }: Block): [number, number][] {
    const bars = [from - 1]
    for (let i = from; i < to; i++) if (this.points[i] === '|' && this.hidden[i]) bars.push(i)
    const first = this.shown.slice(from, bars[1]).join('').trim() === '' ? 1 : 0
    bars.push(to)
    const out = bars.slice(first, -1).map((bar, i): [number, number] => [bar + 1, bars[first + i + 1]!])
    const [start, end] = out[out.length - 1] ?? [0, 0]
    return out.length > 1 && this.shown.slice(start, end).join('').trim() === '' ? out.slice(0, -1) : out
  }
}

// Prose shows a text. Marks are highlighted; sentences are set apart.
export function Prose(props: { text: string; marks?: Places; sentences?: Places; hidden?: Places; top?: number }) {
  const { marks = [], sentences = [], top = 1 } = props
  const text = new Text(props.text, props.hidden ?? [])
  const tone = new Uint8Array(text.points.length)
  for (const { start, end } of sentences) tone.fill(2, Math.max(start, 0), Math.max(end, 0))
  for (const { start, end } of marks) for (let i = Math.max(start, 0); i < Math.min(end, tone.length); i++) tone[i]! |= 1

  // runs cuts a part where a bit of its tone changes.
  const runs = (from: number, to: number, bit: number, show: (from: number, to: number, set: boolean) => ComponentChildren) => {
    const out: ComponentChildren[] = []
    for (let i = from; i < to; ) {
      const set = (tone[i]! & bit) > 0
      let end = i + 1
      while (end < to && (tone[end]! & bit) > 0 === set) end++
      out.push(show(i, end, set))
      i = end
    }
    return out
  }
  const words = (from: number, to: number) => text.shown.slice(from, to).join('')
  const inner = (from: number, to: number) =>
    runs(from, to, 2, (from, to, sentence) => {
      const marked = runs(from, to, 1, (from, to, mark) => (mark ? <mark>{words(from, to)}</mark> : words(from, to)))
      return sentence ? <span class="sentence">{marked}</span> : marked
    })

  const out: ComponentChildren[] = []
  for (let i = 0; i < text.blocks.length; i++) {
    const block = text.blocks[i]!
    const content = inner(block.from, block.to)
    if (block.kind === 'row') {
      const rows = [block]
      while (text.blocks[i + 1]?.kind === 'row' && text.blocks[i + 1]!.level === 0) rows.push(text.blocks[++i]!)
      out.push(<Grid rows={rows.map((row) => text.cells(row).map(([from, to]) => inner(from, to)))} titled={!!block.titled} />)
    } else if (block.kind === 'head') {
      const Head = `h${Math.min(6, top + block.level)}` as 'h6'
      out.push(<Head>{content}</Head>)
    } else if (block.kind === 'page') {
      out.push(<hr />) // where a page ends
    } else if (block.kind === 'code') {
      out.push(
        <pre>
          <code>{content}</code>
        </pre>,
      )
    } else {
      const deep = Math.min(3, Math.floor(block.level / 2))
      out.push(<p class={block.kind === 'item' ? `item d${deep}` : undefined}>{content}</p>)
    }
  }
  return <>{out}</>
}

function Grid({ rows, titled }: { rows: ComponentChildren[][]; titled: boolean }) {
  const [head, ...body] = titled ? rows : [undefined, ...rows]
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table">
      <table>
        {head && (
          <thead>
            <tr>
              {head.map((cell) => (
                <th scope="col">{cell}</th>
              ))}
            </tr>
          </thead>
        )}
        <tbody>
          {body.map((row) => (
            <tr>
              {row?.map((cell) => (
                <td>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
