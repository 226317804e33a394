// Whoever makes a link to this page chooses the question in it, and answers may cost money: a question is asked where
// somebody asked it in this tab, by its form or by a link of the page's own, and else stands in the form to be asked.

import { parse } from './route'

const kept = 'asked'
const most = 200
let names: string[] | undefined // undefined: not read yet

function read(): string[] {
  if (names) return names
  names = []
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(kept) ?? '[]')
    if (Array.isArray(stored)) names = stored.filter((name) => typeof name === 'string')
  } catch {
    // without storage it is known as long as the page is open
  }
  return names
}

const nameOf = (index: string, question: string): string => `${index} ${question.trim()}`

export const mine = (index: string, question: string): boolean => read().includes(nameOf(index, question))

export function remember(index: string, question: string): void {
  if (!question.trim() || mine(index, question)) return
  names = [...read(), nameOf(index, question)].slice(-most)
  try {
    sessionStorage.setItem(kept, JSON.stringify(names))
  } catch {
    // as above
  }
}

// A link of the page is followed: what it asks is the page's own.
addEventListener(
  'click',
  (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (!link || link.origin !== location.origin || link.pathname !== location.pathname) return
    const { index, params } = parse(link.hash)
    remember(index, params.q ?? '')
  },
  true,
)
