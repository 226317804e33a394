// The page in headless Chromium, against the servers at OPEN and LOCKED (page_test.go starts them). What those cannot
// show at will, such as a full budget or a run half done, is put in between.
import assert from 'node:assert/strict'
import { accessible, browser, changed, json, problem, run, runs, visit } from './browser.mjs'

const { OPEN: open, LOCKED: locked, SIGNON: signOn, PROVIDER: provider, TOKEN: token } = process.env
const asked = 'What is the capital of Norway?'
const q = 'q=' + encodeURIComponent(asked)

const steps = {
  async 'indexes are cards, and lead to a question'() {
    const published = new Date(Date.now() - 3 * 3_600_000 - 5000).toISOString()
    const card = {
      index: 'sample',
      generation: 'g2',
      documents: 6,
      chunks: 9,
      classes: 12,
      bytes: 2_500_000,
      published,
      problems: 2,
    }
    await visit('', { fake: { '**/v1/indexes/sample': json(card) } }, async (page) => {
      await page.getByText('Published 3 hours ago').waitFor()
      assert.match(await page.locator('.card').innerText(), /documents\s*6[\s\S]*g2 · 2\.5 MB[\s\S]*2 problems/)
    })
    const none = { '**/v1/indexes/sample': problem(404, 'not_found', 'no such address') } // of a server without cards
    await visit('', { fake: none }, async (page) => {
      await page.getByRole('heading', { name: 'sample' }).waitFor()
      assert.match(await page.locator('.card').innerText(), /documents\s*6/)
      await page.getByRole('link', { name: 'Ask sample' }).click()
      await page.getByLabel('Question').waitFor()
      assert.match(page.url(), /#\/sample\/ask$/)
    })
  },

  async 'the last runs are pictures, and a run has a report to keep'() {
    const night = (n, more) => ({
      run: 'sample/n' + n, generation: 'n' + n, status: 'completed', published: true, seconds: 60 + n, documents: 100,
      started: new Date(Date.UTC(2026, 2, n, 3)).toISOString(), chunks: 400 + n, changed: n, share: n / 100, calls: 10 * n,
      tokens: 1000 * n, cost: n / 10, currency: 'EUR', failed: 0, dead_letters: 0, bytes: 5e6, planned: null, ...more,
    })
    const nights = Array.from({ length: 30 }, (_, i) => night(i + 1, i % 7 === 6 ? { status: 'held', published: false } : {}))
    const totals = { nights: 30, published: 26, unchanged: 0, held: 4, failed: 0, calls: 4650, cost: 46.5, seconds: 2265, bytes: 1.5e8 }
    const fake = {
      '**/v1/indexes/sample/runs?*': json({ index: 'sample', items: [{ ...run, run: 'sample/n30', generation: 'n30', status: 'completed' }] }),
      '**/v1/indexes/sample/trends': json({ index: 'sample', nights, totals }),
      '**/v1/indexes/sample/runs/n30': json({ ...run, run: 'sample/n30', generation: 'n30', status: 'completed' }),
      '**/v1/indexes/sample/runs/n30/report': (route) => route.fulfill({ contentType: 'text/markdown', body: '# kept' }),
    }
    await visit('#/sample/runs', { fake }, async (page) => {
      const trends = page.getByRole('region', { name: 'Trends' })
      await trends.waitFor()
      assert.match(await trends.innerText(), /last 30 builds[\s\S]*26 published[\s\S]*4 held[\s\S]*46\.50 EUR/)
      const cost = page.getByRole('img', { name: 'Cost of 30 builds, last 3.00 EUR' })
      assert.equal(await cost.locator('rect').count(), 30)
      assert.doesNotMatch(await trends.innerText(), /Dead letters|Estimate|unchanged|failed/) // zero in all runs
      assert.equal(await cost.locator('rect.warn').count(), 4)
      const boxes = await cost.locator('rect').evaluateAll((all) => all.map((one) => Number(one.getAttribute('height'))))
      assert.ok(boxes[29] > boxes[14] && boxes[14] > boxes[0], boxes.join(' '))
      await accessible(page, 'trends')
      if (process.env.SHOTS) await page.screenshot({ path: process.env.SHOTS + '/trends.png', fullPage: true })
    })
    await visit('#/sample/runs/n30', { fake }, async (page) => {
      const download = page.waitForEvent('download')
      await page.getByRole('button', { name: 'Save the report' }).click()
      assert.equal((await download).suggestedFilename(), 'sample-n30.md')
    })
  },

  async 'the night that took a document away is named with its causes'() {
    const probe = (generation, rank) => ({ generation, rank, seq: 1, top: 5, indexed: true })
    const found = {
      index: 'sample', good: probe('g1', 2), bad: probe('g2', 0), notices: ['g0 was skipped'], questions: 9, tokens: 7,
      causes: [{ kind: 'passage_above', change: 'added', object: 'new.txt', confirmed: true, rank: 2, text: 'new.txt was added; without this, rank 2' }],
      ranking: [{ document: 'cities/oslo.txt', before: 2, after: 7, expected: true, change: 'same' }],
    }
    const sent = []
    const fake = { '**/v1/indexes/sample/bisect': (route) => (sent.push(route.request().postDataJSON()), json(found)(route)) }
    await visit('#/sample/ask?answer=no&' + q, { fake }, async (page) => {
      await page.getByRole('link', { name: 'A document is missing?' }).click()
      await page.getByLabel('Document that it should find').fill('cities/oslo.txt')
      await page.getByRole('button', { name: 'Find' }).click()
      const night = page.getByRole('region', { name: 'Night' })
      await night.waitFor()
      assert.match(await night.innerText(), /g1 returns it at rank 2 of 5, g2 does not[\s\S]*confirmed[\s\S]*rank 2[\s\S]*g0 was/)
      assert.match(await night.innerText(), /9 questions, 7 tokens/)
      assert.deepEqual(sent, [{ query: asked, expect: 'cities/oslo.txt' }])
      await accessible(page, 'bisect')
    })
  },

  async 'themes are columns of bars that lead to passages'() {
    await visit('#/sample/themes', {}, async (page) => { // as the server has it
      const overview = page.getByRole('region', { name: 'Overview' })
      await overview.waitFor()
      assert.equal(await overview.getByRole('listitem').count(), 2)
      await overview.getByRole('link').first().focus()
      await page.keyboard.press('Enter')
      await page.locator('.text.document mark').waitFor()
      assert.match(page.url(), /#\/sample\/documents\/.+start=\d+&end=\d+/)
    })
    const chunk = (theme, i) => ({
      id: 'f'.repeat(32), document: `cities/town-${i}.txt`, ordinal: i, start: 0, end: 40, degree: 3, member: i < 5,
      loading: 0.6 / (1 + i / 3), question: `Which harbour does pilot ${theme}-${i} know, and who asked for him on the night of the storm?`,
    })
    const themes = Array.from({ length: 7 }, (_, k) => ({
      theme: k, lambda: 1 / (1 + k), beta: 1 / (1 + k), questions: [], chunks: Array.from({ length: 40 }, (_, i) => chunk(k, i)),
      summary: 'Pilots guide ships through the fog into the harbours of the north. Captains ask for them by name.',
    }))
    const memory = {
      index: 'sample', generation: 'g2', chunks: 4000, shown: 280, questions: 19_500, graph: 'nearest', values: [1], residuals: [0],
      estimated: 7, themes,
    }
    const fake = { '**/v1/indexes/sample/memory': json(memory) }
    for (const [colorScheme, width] of [
      ['light', 1000],
      ['dark', 1000],
      ['light', 360],
    ])
      await visit('#/sample/themes', { fake, colorScheme, viewport: { width, height: 800 } }, async (page) => {
        const second = page.getByRole('region', { name: 'Theme 2' })
        await second.waitFor()
        assert.equal(await page.locator('.column').count(), 7)
        assert.equal(await second.getByRole('listitem').count(), 8)
        const bars = await second.locator('rect.fill').evaluateAll((all) => all.map((one) => one.getBoundingClientRect().width))
        assert.ok(bars[0] > bars[3] && bars[3] > bars[7] && bars[7] > 0, bars.join(' '))
        await second.getByRole('button', { name: '32 more' }).click()
        assert.equal(await second.getByRole('listitem').count(), 40)
        assert.match(await page.locator('main').innerText(), /280 of 4\u202f000 passages are shown\./)
        const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
        assert.ok(over <= 0, `${width} pixels: ${over} too wide`)
        await accessible(page, `themes (${colorScheme}, ${width})`)
        if (process.env.SHOTS) {
          await page.reload()
          await second.waitFor()
          await page.screenshot({ path: `${process.env.SHOTS}/themes-${colorScheme}-${width}.png`, fullPage: true })
        }
      })
    const none = {
      '**/v1/indexes/sample': changed((body) => delete body.enriched),
      '**/v1/indexes/sample/memory': problem(422, 'invalid_param', 'add gem to indexes.*.enrich'),
    }
    await visit('#/sample/themes', { fake: none }, async (page) => {
      await page.getByRole('heading', { name: 'No themes' }).waitFor()
      assert.match(await page.locator('main').innerText(), /enrich: \[gem\]/)
      assert.doesNotMatch(await page.locator('main').innerText(), /indexes\.\*/)
      await page.getByRole('link', { name: 'Documents' }).click()
      await page.getByRole('heading', { name: 'Documents' }).waitFor()
      assert.equal(await page.getByRole('link', { name: 'Themes' }).count(), 0)
    })
  },

  async 'an answer cites passages, which open from it and close by Escape'() {
    await visit('#/sample/ask', {}, async (page) => {
      await page.getByLabel('Question').fill(asked)
      await page.keyboard.press('Enter')
      await page.locator('.answer .words').waitFor()
      assert.equal(new URLSearchParams(page.url().split('?')[1]).get('q'), asked)
      assert.match(await page.locator('#said').textContent(), /Norway/)
      const cite = page.locator('a.cite').first()
      const number = (await cite.innerText()).replace(/\D/g, '')
      await cite.focus()
      await page.keyboard.press('Enter')
      const head = page.locator('.passage.open h3 button')
      await head.waitFor()
      assert.equal(await head.getAttribute('aria-expanded'), 'true')
      assert.equal(await head.locator('.number').innerText(), number)
      await page.waitForFunction(() => document.activeElement?.closest('.passage.open'))
      assert.match(page.url(), /open=[0-9a-f]{32}/)
      const address = page.url()
      await page.keyboard.press('Escape')
      await page.locator('.passage.open').waitFor({ state: 'detached' })
      assert.doesNotMatch(page.url(), /open=/)
      await page.goto('about:blank')
      await page.goto(address) // the opened passage has an address
      await page.locator('.passage.open .text').waitFor()
    })
  },

  async 'no blank stands between a citation and a full stop'() {
    const edit = changed((body) => {
      body.answer = { text: 'Oslo is the capital [1] .', citations: [body.chunks[0].id], kind: 'model' }
    })
    await visit('#/sample/ask?' + q, { fake: { '**/query': edit } }, async (page) => {
      assert.equal(await page.locator('.answer .words').innerText(), 'Oslo is the capital [1].')
    })
  },

  async 'going back asks nothing anew'() {
    let count = 0
    const counted = {
      '**/query': (route) => {
        count++
        return route.continue()
      },
    }
    await visit('#/sample/ask?' + q, { fake: counted }, async (page) => {
      await page.locator('.answer').waitFor()
      await page.getByLabel('Question').fill('Who sailed on Fram?')
      await page.keyboard.press('Enter')
      await page.waitForFunction(() => /Fram/.test(document.title))
      await page.locator('.answer').waitFor()
      await page.goBack()
      await page.waitForFunction((text) => document.querySelector('#question').value === text, asked)
      await page.locator('.answer').waitFor()
      assert.equal(count, 2)
    })
  },

  async 'a question that comes with a link from elsewhere is asked when somebody says so'() {
    let count = 0
    const counted = {
      '**/query': (route) => {
        count++
        return route.continue()
      },
    }
    const options = { fake: counted, stranger: true }
    await visit('#/sample/ask?' + q, options, async (page) => {
      await page.getByText('came with a link').waitFor()
      assert.equal(await page.getByLabel('Question', { exact: true }).inputValue(), asked)
      await accessible(page, 'a question of a link')
      assert.equal(count, 0)
      await page.getByRole('button', { name: 'Ask it' }).click()
      await page.locator('.answer .words').waitFor()
      await page.reload() // it is this tab's now
      await page.locator('.answer .words').waitFor()
      assert.equal(count, 2)
    })
    await visit('#/sample/ask?' + q, options, async (page) => {
      await page.getByText('came with a link').waitFor()
      await page.getByLabel('Question', { exact: true }).press('Enter')
      await page.locator('.answer .words').waitFor()
      assert.equal(count, 3)
      await page.getByRole('link', { name: 'Compare methods' }).click() // the page's own link
      await page.locator('table.compare').waitFor()
      assert.equal(count, 5)
    })
    await visit('#/sample/compare?' + q, options, async (page) => {
      await page.getByText('came with a link').waitFor()
      assert.equal(count, 5)
      await page.getByRole('button', { name: 'Ask it' }).click()
      await page.locator('table.compare').waitFor()
      assert.equal(count, 7)
    })
  },

  async 'what matched is marked at its code points, with heading, page and confidence'() {
    const text = '😀 A line before. Oslo is the capital 🏛 of Norway. A line behind.'
    const start = Array.from('😀 A line before. ').length
    const end = start + Array.from('Oslo is the capital 🏛 of Norway.').length
    const edit = changed((body) => {
      Object.assign(body.chunks[0], {
        text,
        heading: ['Cities', 'Capitals'],
        page: 3,
        page_end: 4,
        rects: [
          { page: 3, left: 72, top: 700, right: 540, bottom: 730, page_width: 612, page_height: 792 },
          { page: 4, left: 72, top: 72, right: 540, bottom: 90, page_width: 612, page_height: 792 },
          { page: 4, left: 72, top: 120, right: 300, bottom: 140, page_width: 612, page_height: 792 },
        ],
        highlights: [{ start, end }],
        snippet: { text: Array.from(text).slice(2, end).join(''), start: 2, end },
      })
      body.confidence = 0.2
      body.answer = { text: 'Oslo [1], or so.', citations: [body.chunks[0].id], kind: 'best_sentence' }
    })
    await visit('#/sample/ask?' + q, { fake: { '**/query': edit } }, async (page) => {
      const first = page.locator('.passage').first()
      await first.waitFor()
      assert.equal(await first.locator('.snippet mark').textContent(), 'Oslo is the capital 🏛 of Norway.')
      assert.match(await first.locator('.where').innerText(), /Cities › Capitals\s+pages 3–4/)
      assert.match(
        await page.locator('.answer').innerText(),
        /Best extract[\s\S]*Oslo \[1\], or so\.[\s\S]*Confidence in the passages: low/,
      )
      await first.locator('button').click()
      assert.equal(await first.locator('.text mark').textContent(), 'Oslo is the capital 🏛 of Norway.')
      assert.equal(await first.locator('.text .sentence').textContent(), Array.from(text).slice(2, end).join(''))
      assert.equal(await first.locator('.text').textContent(), text)
      assert.deepEqual(await first.locator('.sheets figcaption').allTextContents(), ['page 3', 'page 4'])
      assert.equal(await first.locator('.sheets svg').nth(1).locator('.part').count(), 2)
    })
  },

  async 'a document is read as text: headings, lists, tables, code and paragraphs'() {
    const text = `# Lease [![CI](b.svg)](u)

The tenant, who moved in during the spring of the year, pays on the
first day of each month. The owner lives in Rotter-
dam, and sends a bill.

Rent 900\tHeat 80
Due 1 May\tPaid yes

Landlady: somebody who owns a rather large number of houses
Town: Rotterdam

    indented code

* one is *soft*
  and goes on
1. two

| Vendor | Contact |
|--------|:-------:|
| Söhneschiffsbaugesellschaft | 😀 Eva |
\f

\`\`\`sh
# a comment
\`\`\`
`
    const hidden = [...text.matchAll(/^# (?=L)| \[!.*\)$|(?<=is )\*|\*$|^\| |(?<=\S *)\|(?= \S)| *\|$|^\|-.*$|^```.*$/gmu)].map((found) => {
      const start = Array.from(text.slice(0, found.index)).length
      return { start, end: start + Array.from(found[0]).length }
    })
    const from = Array.from(text.slice(0, text.indexOf('Rotter'))).length
    const edit = changed((body) => Object.assign(body, { text, start: 0, end: 400, length: 400, markup: hidden, title: 'Lease' }))
    const fake = { '**/documents/**/text?*': edit }
    await visit(`#/sample/documents/cities%2Foslo.txt?start=${from}&end=${from + 16}`, { fake }, async (page) => {
      const box = page.locator('.text.document')
      await box.waitFor()
      assert.equal(await box.getByRole('heading', { level: 2 }).innerText(), 'Lease')
      assert.deepEqual(await box.locator('> p').allInnerTexts(), [
        'The tenant, who moved in during the spring of the year, pays on the first day of each month. ' +
          'The owner lives in Rotter-dam, and sends a bill.',
        'Rent 900\tHeat 80\nDue 1 May\tPaid yes',
        'Landlady: somebody who owns a rather large number of houses\nTown: Rotterdam',
        '• one is soft and goes on',
        '1. two',
      ])
      assert.equal(await box.locator('mark').innerText(), 'Rotter-dam, and')
      assert.deepEqual(await box.locator('th').allInnerTexts(), ['Vendor', 'Contact'])
      assert.deepEqual(await box.locator('td').allInnerTexts(), ['Söhneschiffsbaugesellschaft', '😀 Eva'])
      assert.equal(await box.locator('hr').count(), 1)
      const lines = await box.locator('.scroll').evaluate((table) => {
        table.style.width = '100px'
        const range = document.createRange()
        range.selectNodeContents(table.querySelector('td'))
        return [range.getClientRects().length, table.scrollWidth > table.clientWidth]
      })
      assert.deepEqual(lines, [1, true])
      assert.deepEqual(await box.locator('pre').allTextContents(), ['    indented code', '# a comment'])
      await accessible(page, 'a document')
    })
  },

  async 'an opened passage shows what matched, and what belongs to it stays near'() {
    const edit = changed((body) => {
      const text = 'A line of Oslo.\n\n'.repeat(200) + 'Oslo is the capital.\n\n' + 'More of it.\n\n'.repeat(200)
      const start = text.indexOf('Oslo is')
      Object.assign(body.chunks[0], { text, markup: [], highlights: [{ start: 10, end: 14 }, { start, end: start + 4 }] })
      body.chunks[0].snippet = { text: 'Oslo is the capital.', start, end: start + 20 }
    })
    await visit('#/sample/ask?' + q, { fake: { '**/query': edit } }, async (page) => {
      const first = page.locator('.passage').first()
      await first.locator('button').click()
      const [box, mark] = [await first.locator('.text').boundingBox(), await first.locator('.text .sentence').boundingBox()]
      assert.ok(box.height < 600 && mark.y > box.y && mark.y + mark.height < box.y + box.height, JSON.stringify([box, mark]))
    })
  },

  async 'nothing of a document becomes markup or a link to run'() {
    const evil = '<img src=x onerror="window.hit=1"><script>window.hit=1</script><b>bold</b>'
    const edit = changed((body) => {
      for (const chunk of body.chunks) {
        Object.assign(chunk, { title: evil, text: evil, heading: [evil], snippet: { text: evil, start: 0, end: 74 } })
        chunk.metadata = { bad: 'javascript:window.hit=1', data: 'data:text/html,x', good: 'https://example.org/a' }
        chunk.entities = [{ id: '../../..', name: evil }]
      }
      body.answer = { text: evil + ' [1]', citations: [] }
      body.degraded = [evil]
    })
    await visit('#/sample/ask?' + q, { fake: { '**/query': edit } }, async (page) => {
      await page.locator('.passage button').first().click()
      await page.locator('.metadata').waitFor()
      assert.equal(await page.locator('main img, main script, main b').count(), 0)
      assert.equal(await page.locator('.answer .words').textContent(), evil + ' [1]')
      const links = page.locator('.metadata a')
      assert.equal(await links.count(), 1)
      assert.equal(await links.getAttribute('href'), 'https://example.org/a')
      assert.match(await links.getAttribute('rel'), /noopener/)
      const addresses = await page.locator('main a').evaluateAll((all) => all.map((a) => a.protocol))
      assert.ok(
        addresses.every((protocol) => /^https?:$/.test(protocol)),
        addresses.join(),
      )
      assert.equal(await page.evaluate(() => window.hit), undefined)
    })
  },

  async 'no match is said plainly'() {
    const edit = changed((body) => {
      Object.assign(body, {
        chunks: [],
        entities: [],
        reason: 'no_match',
        answer: { text: 'No data was found.', citations: [] },
      })
    })
    await visit('#/sample/ask?q=zzqx', { fake: { '**/query': edit } }, async (page) => {
      await page.getByRole('heading', { name: 'Nothing here matches the question' }).waitFor()
      assert.equal(await page.locator('.passage').count(), 0)
    })
  },

  async 'an empty question is not sent'() {
    await visit('#/sample/ask', { fake: { '**/query': (route) => route.abort() } }, async (page) => {
      await page.getByRole('button', { name: 'Ask' }).click()
      await page.getByText('Write a question first.').waitFor()
    })
  },

  async 'the shares of every passage sum to one, for every method'() {
    for (const method of ['hybrid', 'unweaver', 'ppr', 'aligned', 'vector', 'bm25', 'unweaver&rule=phragmen']) {
      let exact
      const seen = async (route) => {
        const response = await route.fetch()
        const body = await response.json()
        for (const chunk of body.explain?.chunks ?? []) {
          if (!chunk.class_shares) continue // all but the first are told as one sum, as in large indexes
          for (const { share } of chunk.class_shares.splice(1)) chunk.rest_share += share
        }
        if (body.explain) exact = body
        await route.fulfill({ response, body: JSON.stringify(body) })
      }
      await visit(`#/sample/ask?${q}&method=${method}&view=picture`, { fake: { '**/query': seen } }, async (page) => {
        await page.locator('svg.flow').waitFor()
        const shares = await page
          .locator('.ribbon[data-chunk]')
          .evaluateAll((all) => all.map(({ dataset }) => [Number(dataset.chunk), Number(dataset.share)]))
        assert.ok(shares.length > 0, method)
        const sums = new Map()
        for (const [chunk, share] of shares) sums.set(chunk, (sums.get(chunk) ?? 0) + share)
        for (const [chunk, sum] of sums)
          assert.ok(Math.abs(sum - 1) < 1e-9, `${method}: passage ${chunk} sums to ${sum}`)
        if (method === 'hybrid') {
          const [told] = exact.explain.chunks
          const largest = told.class_shares[0]
          assert.ok(
            shares.some(([chunk, share]) => chunk === 0 && Math.abs(share - largest.share) < 1e-9),
            `no ribbon has the share ${largest.share} of ${largest.name}`,
          )
        }
        await page.getByText('As a table').click()
        assert.equal(await page.locator('.picture table thead th').count(), 2 + exact.chunks.length)
      })
    }
  },

  async 'two methods are compared rank by rank'() {
    const edit = changed((body) => {
      const markup = [[4, 6], [11, 12], [14, 15]].map(([start, end]) => ({ start, end }))
      Object.assign(body.chunks[0], { snippet: { text: '# Oslo *is* it', start: 4, end: 18 }, markup })
      if (body.method !== 'bm25') return
      body.chunks.reverse()
      body.chunks.pop() // what was first is only in A
      body.chunks.forEach((chunk, i) => {
        chunk.rank = i + 1
      })
    })
    await visit(`#/sample/compare?${q}&a=vector&b=bm25`, { fake: { '**/query': edit } }, async (page) => {
      await page.locator('table.compare').waitFor()
      assert.match(await page.locator('table.compare').innerText(), /only A/)
      assert.match(await page.locator('table.compare').innerText(), /Oslo is it/)
      assert.ok((await page.locator('.move.up, .move.down').count()) > 0)
      assert.match(await page.locator('section .lead').innerText(), /only in A/)
    })
  },

  async 'two generations are compared'() {
    await visit(`#/sample/compare?${q}&a=vector&b=vector&ga=g1&gb=g2`, { viewport: { width: 360, height: 780 } }, async (page) => {
      await page.locator('table.compare').waitFor()
      const cut = await page.getByLabel('Question').evaluate((box) => box.scrollWidth - box.clientWidth + box.scrollHeight - box.offsetHeight)
      assert.ok(cut <= 0, 'the question is cut')
      assert.match(await page.locator('caption').innerText(), /g1[\s\S]*g2/)
    })
  },

  async 'entities are found by part of a name, the most mentioned first, and show their mentions by document'() {
    await visit('#/sample/entities', {}, async (page) => {
      await page.locator('td.n').first().waitFor()
      const counts = (await page.locator('td.n').allTextContents()).map(Number)
      assert.ok(counts[0] > 1 && counts.every((n, i) => i === 0 || n <= counts[i - 1]), counts.join(' '))
      await page.getByLabel('Order').selectOption('by name')
      await page.waitForFunction(() => {
        const names = [...document.querySelectorAll('tbody td:first-child')].map((cell) => cell.textContent.toLowerCase())
        return names.length > 1 && names.every((name, i) => i === 0 || name >= names[i - 1])
      })
      await page.getByLabel('Names that contain').fill('slo')
      await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 1)
      assert.match(page.url(), /contains=slo/)
      await page.getByRole('link', { name: 'Oslo' }).click()
      await page.getByRole('heading', { name: 'Mentioned in 2 documents' }).waitFor()
      assert.ok(await page.evaluate(() => document.activeElement.closest('main')), 'the focus is not in the new view')
      assert.deepEqual(await page.locator('.mentions mark').allTextContents(), ['Oslo', 'Oslo', 'Oslo'])
      await page.locator('.mentions a.key').first().click()
      await page.locator('.document mark').waitFor()
      assert.match(await page.locator('.document mark').textContent(), /Oslo/)
    })
  },

  async 'generations show what changed, and lead to questions'() {
    await visit('#/sample/generations', {}, async (page) => {
      await page.getByRole('link', { name: 'g2' }).click()
      await page.getByRole('heading', { name: /^g2/ }).waitFor()
      assert.match(await page.locator('.figures').innerText(), /6\s*\+1/)
      await page.getByRole('link', { name: 'Compare answers with the one before' }).waitFor()
    })
    await visit('#/sample/generations/nowhere', {}, async (page) => {
      await page.getByRole('heading', { name: 'There is no generation nowhere' }).waitFor()
    })
  },

  async 'generations count the problems that their runs have'() {
    const fake = { '**/v1/indexes/sample/runs?*': json({ items: [{ ...run, generation: 'g2', problems: 7 }] }) }
    await visit('#/sample/generations', { fake }, async (page) => {
      await page.getByRole('columnheader', { name: 'Problems' }).waitFor()
      assert.deepEqual(await page.locator('td[data-name=Problems]').allTextContents(), ['7', '–'])
    })
  },

  async 'a run that is held says what to do'() {
    const held = { ...run, status: 'held', reason: 'mass_deletion', cost: 0, estimate: null,
      next: ['Check that the corpus is complete. If it is: unweaver index CORPUS --wait --index sample'] }
    await visit('#/sample/runs/g3', { fake: { '**/v1/indexes/sample/runs/**': json(held) } }, async (page) => {
      const todo = page.getByRole('region', { name: 'What to do' })
      assert.equal(await todo.locator('code').innerText(), 'unweaver index CORPUS --wait --index sample')
      assert.equal(await page.getByRole('heading', { name: 'Cost' }).count(), 0)
    })
  },

  async 'a run is followed, also after the server was gone for a moment'() {
    let round = 0
    const moving = (route) => {
      round++
      if (round === 2) return route.abort('connectionrefused')
      return json(round < 3 ? run : { ...run, overall: 1, status: 'completed' })(route)
    }
    await visit('#/sample/runs/g3', { fake: { '**/v1/indexes/sample/runs/**': moving } }, async (page) => {
      await page.getByText('40\u202f% done').waitFor()
      const text = await page.locator('main').innerText()
      assert.match(text, /0\.50 of an estimated 1\.00 to 2\.00/)
      assert.match(text, /2 problems/)
      assert.match(text, /chunk_killed × 2: no JSON/)
      assert.match(text, /about 1 min 30 s left/)
      await page.getByText(/^Not up to date/).waitFor()
      await page.getByText('completed').waitFor()
      assert.equal(await page.getByText(/^Not up to date/).count(), 0)
    })
  },

  async 'every error says what to do'() {
    const cases = [
      [(route) => route.abort('connectionrefused'), 'The server does not answer', /unweaver dev/, 'Try again'],
      [problem(403, 'forbidden', 'no'), 'This is not allowed', /operator/, 'Use another key'],
      [problem(404, 'unknown_index', 'no'), 'Not found', /list of indexes/, 'All indexes'],
      [
        problem(410, 'generation_collected', 'no'),
        'That generation was collected',
        /current one/,
        'Ask the current generation',
      ],
      [problem(429, 'rate_limited', 'no', { 'Retry-After': '2' }), 'Too many requests', /pause/, 'Try again in'],
      [problem(429, 'budget_spent', 'no'), 'Today’s budget is spent', /operator/, 'Try again'],
      [
        problem(503, 'store_unavailable', 'no', { 'Retry-After': '1' }),
        'The server cannot answer at the moment',
        /soon/,
        'Try again',
      ],
      [
        (route) => route.fulfill({ status: 502, body: '<h1>Bad Gateway</h1>' }),
        'Something else answered',
        /proxy/,
        'Try again',
      ],
      [
        (route) => route.fulfill({ status: 200, body: '{"chunks": [' }),
        'The server does not answer',
        /gone/,
        'Try again',
      ],
    ]
    for (const [answer, title, words, button] of cases) {
      await visit(`#/sample/ask?${q}&generation=g1`, { fake: { '**/query': answer } }, async (page) => {
        const alert = page.getByRole('alert')
        await alert.waitFor()
        assert.equal(await alert.locator('h2').innerText(), title)
        assert.match(await alert.innerText(), words)
        assert.ok((await alert.innerText()).includes(button), `${title}: no "${button}"`)
      })
    }
  },

  async 'after a pause that was asked for, trying again brings the answer'() {
    let round = 0
    const once = (route) =>
      round++ === 0 ? problem(429, 'rate_limited', 'no', { 'Retry-After': '1' })(route) : route.continue()
    await visit(`#/sample/ask?${q}`, { fake: { '**/query': once } }, async (page) => {
      const button = page.getByRole('button', { name: /^Try again/ })
      await button.waitFor()
      assert.ok(await button.isDisabled())
      await page.getByRole('button', { name: 'Try again', exact: true }).click()
      await page.locator('.answer').waitFor()
    })
  },

  async 'a key is asked for, tried, and kept in the tab alone'() {
    await visit(`#/sample/ask?${q}`, { base: locked }, async (page, profile) => {
      await page.getByRole('heading', { name: 'This server asks for a key' }).waitFor()
      assert.ok(!(await page.getByText('Metrics').isVisible()), 'a link that leads to a 401')
      await page.getByLabel('API key').fill('wrong')
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: 'That key is not taken' }).waitFor()
      await page.getByLabel('API key').fill(token)
      await page.keyboard.press('Enter')
      await page.locator('.answer').waitFor()
      assert.ok(!page.url().includes(token))
      assert.ok(!(await page.evaluate(() => JSON.stringify(localStorage) + document.cookie)).includes(token))
      assert.equal(await page.getByRole('link', { name: 'Metrics' }).count(), 0)
      const other = await profile.newPage()
      await other.goto(locked + '/')
      await other.getByRole('heading', { name: 'This server asks for a key' }).waitFor()
      await page.getByRole('button', { name: 'Forget the key' }).click()
      await page.getByRole('heading', { name: 'This server asks for a key' }).waitFor()
    })
  },

  async 'a person signs in, comes back to the question, and signs out'() {
    await visit(`#/sample/ask?${q}`, { base: signOn, leaves: provider }, async (page, profile) => {
      await page.getByRole('heading', { name: 'Sign in to ask' }).waitFor()
      await accessible(page, 'sign in')
      await page.getByRole('link', { name: 'Sign in' }).click()
      await page.locator('.answer').waitFor()
      assert.match(page.url(), /#\/sample\/ask\?q=/)
      assert.equal(await page.evaluate(() => document.cookie), '')
      const other = await profile.newPage()
      await other.goto(signOn + '/#/sample/documents')
      await other.getByText('cities/oslo.txt').first().waitFor()
      await page.route('**/oidc/logout', (route) => route.fulfill({ status: 502 }), { times: 1 })
      await page.getByRole('button', { name: 'Sign out' }).click()
      await page.getByRole('heading', { name: 'Something else answered' }).waitFor()
      await page.getByRole('button', { name: 'Sign out' }).click()
      await page.getByRole('heading', { name: 'Sign in to ask' }).waitFor()
    })
  },

  async 'no index yet tells how to make one'() {
    await visit('', { fake: { '**/v1/indexes?*': json({ items: [] }) } }, async (page) => {
      await page.getByText('unweaver index FOLDER --index docs --wait').waitFor()
    })
  },

  async 'the keyboard reaches everything and is trapped nowhere'() {
    await visit(`#/sample/ask?${q}&view=picture`, {}, async (page) => {
      await page.locator('svg.flow').waitFor()
      await page.evaluate(() => document.activeElement?.blur())
      await page.keyboard.press('Tab')
      assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content')
      const seen = new Set()
      for (let i = 0; i < 80; i++) {
        seen.add(
          await page.evaluate(
            () =>
              document.activeElement.getAttribute('aria-label') ??
              document.activeElement.id ??
              document.activeElement.textContent,
          ),
        )
        await page.keyboard.press('Tab')
        if (await page.evaluate(() => document.activeElement === document.body)) break
      }
      assert.ok(seen.has('question'))
      assert.ok(
        [...seen].some((name) => /, entity: /.test(name)) && [...seen].some((name) => /^\[1\].*, passage: /.test(name)),
      )
      assert.ok(await page.evaluate(() => document.activeElement === document.body), 'the focus never leaves the page')
    })
  },

  async 'colours follow the system, or the button, which is remembered'() {
    await visit('', { colorScheme: 'dark' }, async (page) => {
      const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
      const dark = await paper()
      const button = page.getByRole('button', { name: /^Colours/ })
      await button.click()
      assert.notEqual(await paper(), dark)
      await page.reload()
      assert.notEqual(await paper(), dark)
      await button.click()
      assert.equal(await paper(), dark)
    })
  },

  async 'nothing moves for who wants it calm'() {
    const slow = { '**/query': () => new Promise(() => {}) }
    await visit(`#/sample/ask?${q}`, { reducedMotion: 'reduce', fake: slow }, async (page) => {
      await page.locator('.spinner').waitFor()
      assert.equal(await page.locator('.spinner').evaluate((at) => getComputedStyle(at).animationName), 'none')
    })
  },

  async 'every view fits 360 pixels and has no serious finding of axe, light and dark'() {
    const views = [
      '',
      '#/sample/ask',
      `#/sample/ask?${q}&open=first`,
      `#/sample/ask?${q}&view=picture&method=hybrid`,
      `#/sample/compare?${q}`,
      '#/sample/entities',
      '#/sample/themes',
      '#/sample/documents',
      '#/sample/documents/cities%2Foslo.txt?start=0&end=31',
      '#/sample/generations',
      '#/sample/generations/g2',
      '#/sample/runs',
      '#/sample/runs/g3',
      '#/nowhere/ask?' + q,
      '#/sample/x',
    ]
    for (const [colorScheme, width] of [
      ['light', 360],
      ['dark', 1000],
    ]) {
      const known = [`sample ${asked}`, `nowhere ${asked}`]
      await visit('', { colorScheme, viewport: { width, height: 780 }, fake: runs, known }, async (page) => {
        for (const view of views) {
          await page.evaluate((hash) => {
            location.hash = hash
          }, view || '#/')
          await page.waitForFunction(
            (hash) =>
              location.hash === hash && !document.querySelector('.loading') && document.querySelector('h1, .trouble'),
            view || '#/',
          )
          const cut = await page.evaluate(() =>
            [...document.querySelectorAll('.top nav a')].filter((tab) => {
              const { left, right } = tab.getBoundingClientRect()
              return left < 0 || right > innerWidth
            }).length)
          assert.equal(cut, 0, `${view}: tabs off the screen`)
          const narrow = await page.evaluate(() =>
            [...document.querySelectorAll('.rows td')].filter((cell) => cell.innerText && cell.clientWidth < 24).length)
          assert.ok(width > 400 || narrow === 0, `${view}: ${narrow} cells squeezed`)
          if (view.includes('open=first')) await page.locator('.passage button').first().click()
          const wide = await page.evaluate(
            () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
          )
          assert.ok(wide <= 0, `${view || 'indexes'} is ${wide} pixels wider than ${width}`)
          await accessible(page, `${view || 'indexes'} (${colorScheme})`)
        }
      })
    }
    await visit('', { base: locked, viewport: { width: 360, height: 780 } }, async (page) => {
      await page.getByLabel('API key').waitFor()
      await accessible(page, 'key')
    })
  },
}

let failed = 0
const only = process.argv[2]
for (const [name, step] of Object.entries(steps)) {
  if (only && !name.includes(only)) continue
  const began = Date.now()
  try {
    await step()
    console.log(`ok    ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`)
  } catch (err) {
    failed++
    console.log(`FAIL  ${name}\n${err.stack}\n`)
  }
}
await browser.close()
process.exitCode = failed ? 1 : 0
