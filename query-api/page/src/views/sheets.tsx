// The pages that a passage of a PDF stands on, each a small sheet on which its lines are marked.

import type { Rect } from '../api'

const most = 8 // sheets that are drawn

export function Sheets({ rects = [] }: { rects?: Rect[] }) {
  const pages = new Map<number, Rect[]>()
  for (const rect of rects) pages.set(rect.page, [...(pages.get(rect.page) ?? []), rect])
  if (pages.size === 0) return null
  return (
    <div class="sheets">
      {[...pages].slice(0, most).map(([page, parts]) => (
        <figure>
          <Sheet page={page} parts={parts} />
          <figcaption>page {page}</figcaption>
        </figure>
      ))}
      {pages.size > most && <p class="hint">and {pages.size - most} more pages</p>}
    </div>
  )
}

function Sheet({ page, parts }: { page: number; parts: Rect[] }) {
  const { page_width: width, page_height: height } = parts[0]!
  if (width <= 0 || height <= 0) return null
  return (
    <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`Where the passage stands on page ${page}`}>
      <rect class="paper" width={width} height={height} />
      {parts.map(({ left, top, right, bottom }) => (
        <rect class="part" x={left} y={top} width={Math.max(right - left, 1)} height={Math.max(bottom - top, 1)} />
      ))}
    </svg>
  )
}
