// What e2e.mjs tests with: a browser that lets nothing pass which a page must not do, and answers put in between.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { chromium } from 'playwright-core'

const { OPEN: open, CHROMIUM: executablePath } = process.env
const axe = await readFile(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8')
export const browser = await chromium.launch({
  executablePath,
  args: process.getuid?.() === 0 ? ['--no-sandbox'] : [], // Chromium's own sandbox refuses root
})

// visit opens an address in a profile of its own, and lets nothing pass that a page must not do. Its question was
// asked in the tab before, as those that are known, unless the address is a stranger's. The page may lead to one other
// origin, which leaves names.
export async function visit(path, options, work) {
  const { base = open, fake = {}, stranger = false, known = [], leaves = '', ...context } = options
  const profile = await browser.newContext({ viewport: { width: 1000, height: 800 }, ...context })
  const page = await profile.newPage()
  page.setDefaultTimeout(60_000) // of a machine that has much else to do
  const wrong = []
  page.on('pageerror', (err) => wrong.push('error: ' + err.message))
  page.on('console', (message) => {
    if (/Content Security Policy|Trusted/i.test(message.text())) wrong.push('policy: ' + message.text())
  })
  page.on('request', (request) => {
    if (![base, leaves].includes(new URL(request.url()).origin)) wrong.push('asked ' + request.url())
  })
  const [, index, search] = /^#\/([^/]+)\/\w+\?(.*)/s.exec(path) ?? []
  const q = new URLSearchParams(search).get('q')
  const names = stranger ? [] : [...known, ...(q ? [`${index} ${q}`] : [])]
  await page.addInitScript((names) => {
    if (location.protocol === 'http:' && !sessionStorage.getItem('asked'))
      sessionStorage.setItem('asked', JSON.stringify(names))
  }, names)
  for (const [pattern, answer] of Object.entries(fake)) await page.route(pattern, answer)
  try {
    await page.goto(base + '/' + path)
    await work(page, profile)
  } finally {
    await profile.close()
  }
  assert.deepEqual(wrong, [])
}

export const json =
  (body, status = 200, headers = {}) =>
  (route) =>
    route.fulfill({ status, headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(body) })
export const problem = (status, code, detail, headers) =>
  json({ type: 'https://unweaver.dev/problems/' + code, title: 'x', status, code, detail }, status, headers)
// changed asks the server and changes what it says.
export const changed = (edit) => async (route) => {
  const response = await route.fetch()
  const body = await response.json()
  edit(body)
  await route.fulfill({ response, body: JSON.stringify(body) })
}

// accessible asks axe, with the rules of WCAG 2.2 AA.
export async function accessible(page, where) {
  await page.evaluate(axe + '; undefined')
  const found = await page.evaluate(() =>
    window.axe.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    }),
  )
  const bad = found.violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
  assert.deepEqual(
    bad.map(({ id, nodes }) => `${where}: ${id} ${nodes[0].html} ${nodes[0].failureSummary}`),
    [],
  )
}

// run is one that goes on.
export const run = {
  index: 'sample',
  generation: 'g3',
  run: 'sample/g3',
  status: 'running',
  stage: 'extract',
  overall: 0.4,
  seconds: 61,
  eta_seconds: 90,
  cost: 0.5,
  documents: 6,
  chunks: 9,
  classes: 14,
  estimate: { cost: { low: 1, high: 2 } },
  stages: [
    { name: 'plan', done: 6, total: 6, seconds: 1 },
    { name: 'extract', done: 4, total: 9, seconds: 60 },
  ],
  diff: { added: 1, changed: 2, moved: 0, removed: 0, same: 3, unusable: 0 },
  problems_total: 0,
  problems: [
    { code: 'chunk_killed', object: 'a#1', detail: 'no JSON' },
    { code: 'chunk_killed', object: 'b#2', detail: 'no JSON' },
  ],
  started: new Date().toISOString(),
}
export const runs = {
  '**/v1/indexes/sample/runs?*': json({ items: [run] }),
  '**/v1/indexes/sample/runs/**': json(run),
}
