// Builds src into dist, which is committed, so that `go build` needs no node.
//   node build.mjs           write dist
//   node build.mjs --check   fail where dist is not what src gives
import { build } from 'esbuild'
import { mkdir, readFile, writeFile } from 'node:fs/promises'

const folder = new URL('.', import.meta.url)
// What the bundle holds of others goes with its notice.
const notice = async (name) => {
  const read = (file) => readFile(new URL(`node_modules/${name}/${file}`, folder), 'utf8')
  const { version } = JSON.parse(await read('package.json'))
  return `/* This file holds ${name} ${version}:\n\n${(await read('LICENSE')).trim()}\n*/`
}
const made = await build({
  absWorkingDir: new URL('.', import.meta.url).pathname,
  entryPoints: { app: 'src/main.tsx', style: 'src/style.css' },
  outdir: 'dist',
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  charset: 'utf8',
  legalComments: 'none',
  banner: { js: await notice('preact') },
  write: false,
})
const files = new Map(made.outputFiles.map((file) => [file.path.split('/').pop(), Buffer.from(file.contents)]))
for (const name of ['index.html', 'icon.svg']) files.set(name, await readFile(new URL('src/' + name, folder)))

const dist = new URL('dist/', folder)
await mkdir(dist, { recursive: true })
let differs = false
for (const [name, wanted] of files) {
  const at = new URL(name, dist)
  if (!process.argv.includes('--check')) {
    await writeFile(at, wanted)
    continue
  }
  const found = await readFile(at).catch(() => undefined)
  if (!found?.equals(wanted)) {
    differs = true
    console.error(`dist/${name} is not what src gives: run make page, and commit it`)
  }
}
process.exitCode = differs ? 1 : 0
