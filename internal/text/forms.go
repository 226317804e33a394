package text

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Exact marks a term that is a word with its accents. It stands beside the term without them, so that of the passages
// that a question with accents finds, those that have them come first.
const Exact = "="

// IsExact reports whether a term is a word with its accents.
func IsExact(term string) bool { return strings.HasPrefix(term, Exact) }

const (
	// longestCompound is the length in bytes up to which words are taken apart, and mostParts how many parts they have
	// at most: what has more is no name that people gave.
	longestCompound = 100
	mostParts       = 12
)

// dotted are names that begin with a dot and are others without it.
var dotted = setOf("net")

// contracted are what English words end with behind an apostrophe that belongs to them.
var contracted = setOf("t d s m ll re ve")

// walkForms gives the forms of a word that it is found by: itself, without the signs between its parts, and its parts.
// A word that its signs make another one (C++, C#, .NET, AT&T) has no form without them.
func (l *Language) walkForms(word string, each func(form string)) {
	word = cleanWord(word)
	if len(word) > longestCompound {
		each(strings.Map(func(r rune) rune {
			if isLetterlike(r) {
				return r
			}
			return -1
		}, word))
		return
	}
	word = strings.TrimSuffix(strings.TrimSuffix(word, "'s"), "'S")
	if strings.Contains(word, "'") {
		if word = l.splitApostrophe(word, each); word == "" {
			return
		}
	}
	if rest, ok := strings.CutPrefix(word, "."); ok {
		each(word)
		if !dotted[strings.ToLower(rest)] {
			l.walkForms(rest, each)
		}
		return
	}
	if core := strings.TrimRight(word, "+#*"); len(core) < len(word) && core != "" {
		each(word)
		if strings.HasSuffix(word, "*") || utf8.RuneCountInString(core) > longestSigned {
			l.walkForms(core, each)
		}
		return
	}
	whole, parts := splitWord(word)
	if whole != "" && !strings.Contains(word, "-t-") { // a-t-il is no word
		each(whole)
	}
	for _, part := range parts {
		if part != whole {
			each(part)
		}
	}
}

// splitApostrophe gives a word without its apostrophes, and the forms of what they part: the name behind a particle
// that is written together with it (l'été), and the one before an ending (İstanbul'da). It is empty after a
// contraction, which is its only form.
func (l *Language) splitApostrophe(word string, each func(form string)) string {
	if elided := l.ElisionLength(word); elided > 0 {
		return strings.ReplaceAll(word[elided:], "'", "")
	}
	word = strings.ToLower(word)
	head, tail, _ := strings.Cut(word, "'")
	switch {
	case contracted[word[strings.LastIndexByte(word, '\'')+1:]]:
		each(word)
		return ""
	case elisions[head]:
		l.walkForms(tail, each)
	case !l.elides && utf8.RuneCountInString(head) > longestSigned:
		each(head)
	}
	return strings.ReplaceAll(word, "'", "")
}

// longestSigned is how many characters a name has that is nothing but the letter that its sign stands at: C++, C#, VB+.
const longestSigned = 2

// splitWord takes a word apart where signs or capital letters join its parts, and gives it without those signs.
func splitWord(word string) (whole string, parts []string) {
	if isSimple(word) {
		return word, nil
	}
	if number, ok := joinThousands(word); ok {
		return number, nil
	}
	if rest := strings.TrimLeft(word, "vV"); len(rest) == len(word)-1 && strings.Trim(rest, "0123456789.") == "" &&
		strings.Contains(rest, ".") {
		return word, []string{rest}
	}
	var all strings.Builder
	runes := []rune(word)
	start, humped := 0, false
	end := func(at int, hump bool) {
		if part := runes[start:at]; isTerm(runes, start, at, hump || humped) {
			parts = append(parts, restoreDot(string(part), start > 0 && runes[start-1] == '.'))
		}
		start, humped = at, hump
	}
	for i, r := range runes {
		switch {
		case r == '&':
			end(i, false)
			all.WriteRune(r)
			start++
		case !isLetterlike(r) && !isFraction(runes, i):
			end(i, false)
			start++
		default:
			if i > start+1 && isHump(runes, i) {
				end(i, true)
			}
			all.WriteRune(r)
		}
	}
	end(len(runes), false)
	if len(parts) > mostParts {
		parts = nil
	}
	return all.String(), parts
}

// isTerm reports whether a part of a word is a term of its own: not a single letter, but behind or before a hyphen
// (X-ray, and not Objective-C); not two small letters beside a hump (CoV), and not two beside an ampersand (AT&T).
func isTerm(runes []rune, start, at int, humped bool) bool {
	part := runes[start:at]
	switch len(part) {
	case 0:
		return false
	case 1:
		hyphened := slices.Contains(runes, '-')
		name := at == len(runes) && unicode.IsUpper(runes[0]) && unicode.IsUpper(part[0])
		return unicode.IsDigit(part[0]) || (hyphened && !name)
	case 2:
		if slices.Contains(runes, '&') {
			return false
		}
		return !humped || (!unicode.IsLower(part[0]) && !unicode.IsLower(part[1]))
	}
	return true
}

// isFraction reports whether a sign stands between digits, as part of a number.
func isFraction(runes []rune, i int) bool {
	return (runes[i] == '.' || runes[i] == ',') && i > 0 && i+1 < len(runes) &&
		unicode.IsDigit(runes[i-1]) && unicode.IsDigit(runes[i+1])
}

// restoreDot returns the part of a name behind a dot (ASP.NET), or elsewhere.
func restoreDot(part string, behind bool) string {
	if behind && part == strings.ToUpper(part) && dotted[strings.ToLower(part)] {
		return "." + part
	}
	return part
}

// isSimple reports whether a word is of ASCII letters and digits with no capital letter inside, or of capitals alone.
func isSimple(word string) bool {
	lower, upper := false, false // behind the first character
	for i := range len(word) {
		c := word[i]
		if !isAlphanumeric(c) {
			return false
		}
		if i > 0 {
			lower = lower || c >= 'a'
			upper = upper || (c >= 'A' && c <= 'Z')
		}
	}
	return !upper || (!lower && word[0] < 'a')
}

func isLetterlike(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

// isHump reports whether a part begins at a place: a capital letter behind a small one or a digit, or the last of
// several before a small one. The plural of an acronym (CEOs) has none.
func isHump(runes []rune, i int) bool {
	if i == 0 || !unicode.IsUpper(runes[i]) {
		return false
	}
	if before := runes[i-1]; !unicode.IsUpper(before) {
		return isLetterlike(before)
	}
	rest := string(runes[i+1:])
	return rest != "s" && unicode.IsLower(firstRune(rest))
}

// joinThousands returns a number without the commas between its thousands.
func joinThousands(word string) (string, bool) {
	groups := strings.Split(word, ",")
	if len(groups) < 2 || groups[0] == "" || len(groups[0]) > 3 {
		return "", false
	}
	for i, group := range groups {
		if i == len(groups)-1 {
			group, _, _ = strings.Cut(group, ".")
		}
		if strings.Trim(group, "0123456789") != "" || (i > 0 && len(group) != 3) {
			return "", false
		}
	}
	return strings.Join(groups, ""), true
}

// scanTokens gives the words of a text with the signs that belong to them, which UAX #29 leaves out: C++, C#, .NET,
// AT&T, Objective-C, I/O; and across characters of no width.
func scanTokens(s string) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		var held, last Place // a word that what follows may go on, and its last piece
		for piece := range splitPieces(s) {
			end := includeSigns(s, piece)
			if end == piece.End && continuesWord(s, held, last, piece) {
				held.End, last = piece.End, piece
				continue
			}
			if held.End > 0 && !yield(held) {
				return
			}
			last, held = piece, Place{piece.Start, end}
			if ownsDot(s, piece.Start) {
				held.Start--
			}
		}
		if held.End > 0 {
			yield(held)
		}
	}
}

// ownsDot reports whether the word at a place has a dot before it that belongs to it.
func ownsDot(s string, at int) bool {
	if at == 0 || s[at-1] != '.' {
		return false
	}
	first, _ := utf8.DecodeRuneInString(s[at:])
	before, _ := utf8.DecodeLastRuneInString(s[:at-1])
	return unicode.IsLetter(first) && (at == 1 || IsUnspaced(before) || !isLetterlike(before) && before != '.')
}

// includeSigns returns the end of a word with the signs behind it that belong to it: +, ++ and # of letters, * of one
// letter.
func includeSigns(s string, word Place) int {
	if word.End == len(s) || (s[word.End] < utf8.RuneSelf && !strings.Contains("+#*", s[word.End:word.End+1])) {
		return word.End
	}
	name := s[word.Start:word.End]
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
		return word.End
	}
	signs := s[word.End:]
	for _, sign := range []string{"++", "＋＋", "+", "＋", "#", "＃", "♯", "*"} {
		rest, ok := strings.CutPrefix(signs, sign)
		if !ok {
			continue
		}
		next := firstRune(rest)
		switch {
		case unicode.IsLetter(next) && !IsUnspaced(next) || strings.ContainsRune("+#*", next):
		case unicode.IsDigit(next) && sign != "++" && sign != "＋＋":
		case sign == "*" && (!isSingleLetter(name) || strings.HasSuffix(s[:word.Start], "*")):
		case strings.ContainsAny(sign, "#＃♯") && utf8.RuneCountInString(name) > longestSigned:
		default:
			return word.End + len(sign)
		}
		break
	}
	return word.End
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// continuesWord reports whether a piece goes on the word that is held, whose last piece is given.
func continuesWord(s string, held, last, piece Place) bool {
	if last.End != held.End || piece.Start == held.End || piece.Start-held.End > len("\u200b") || s[held.End] == ' ' {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(s[:held.End])
	after := firstRune(s[piece.Start:])
	if IsUnspaced(before) || IsUnspaced(after) {
		return false
	}
	letters := unicode.IsLetter(before) && unicode.IsLetter(after)
	left, right := isSingleLetter(s[last.Start:last.End]), isSingleLetter(s[piece.Start:piece.End])
	switch s[held.End:piece.Start] {
	case "&", "＆", "\u200b":
		return letters
	case "/":
		return left && right
	case "-", "‐", "‑":
		return left || right && letters
	}
	return false
}

// isSingleLetter reports whether a piece is one letter.
func isSingleLetter(piece string) bool {
	r, size := utf8.DecodeRuneInString(piece)
	return size == len(piece) && unicode.IsLetter(r)
}
