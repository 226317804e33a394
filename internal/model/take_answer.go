package model

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
)

// Marks that models leave around their thoughts where a server does not take these out: of DeepSeek, Qwen and those
// that follow them, Magistral, Seed, Sky-T1, Command A, Apertus, Kimi and the channels of gpt-oss and Gemma.
const (
	thoughtTag = `(?:think|thinking|thoughts?|reasoning|reflection|scratchpad|seed:think|ant:thinking|antthinking)`
	openMarks  = `<\s*` + thoughtTag + `(?:\s[^<>]*)?>|\[THINK\]|<\|begin_of_thought\|>|<\|START_THINKING\|>|` +
		`<\|inner_prefix\|>|◁think▷|<\|channel\|>\s*(?:analysis|commentary)[^<>]*(?:<\|constrain\|>\w+)?` +
		`<\|message\|>|<\|channel>\s*thought`
	closeMarks = `<\s*/\s*` + thoughtTag + `\s*>|\[/THINK\]|<\|end_of_thought\|>|<\|END_THINKING\|>|` +
		`<\|inner_suffix\|>|◁/think▷|<\|channel\|>\s*final[^<>]*(?:<\|constrain\|>\w+\s*)?<\|message\|>|<channel\|>`
	// longestMark is longer than any mark, in bytes.
	longestMark = 256
)

var (
	openRE  = regexp.MustCompile(`(?i)^(?:` + openMarks + `)`)
	closeRE = regexp.MustCompile(`(?i)^(?:` + closeMarks + `)`)
	// plainFinal is how the channels of gpt-oss look where a server drops its special tokens.
	plainFinal = regexp.MustCompile(`(?s)^\s*analysis.*?assistantfinal\s*`)
	// shellRE is what some put around the answer itself.
	shellRE = regexp.MustCompile(`(?is)^\s*(?:<(answer|response|solution)>|<\|begin_of_solution\|>|<\|START_RESPONSE\|>)`)
	shutRE  = regexp.MustCompile(`(?i)(?:</(?:answer|response|solution)>|<\|end_of_solution\|>|<\|END_RESPONSE\|>)\s*$`)
	// tailRE are the special tokens that end a turn.
	tailRE = regexp.MustCompile(`\s*(?:(?:<\|(?:return|end|call|im_end|eot_id|endoftext|eom_id)\|>|</s>)\s*)+$`)
)

// mark of the beginning or the end of a thought: its place in a text.
type mark struct {
	at, end int
	closes  bool
}

// TakeAnswer returns what a model says in a text: what stands behind its last thought, without the marks around it.
// All who read replies get theirs from here. A mark within a string of JSON, or in quotes, is of what is said. thinking
// says that a thought was not closed, so that nothing, or only what stands before it, is said.
func TakeAnswer(text string) (answer string, thinking bool) {
	answer = text
	if at := plainFinal.FindStringIndex(text); at != nil {
		answer = text[at[1]:]
	}
	if marks := marksOf(answer); len(marks) > 0 {
		answer, thinking = dropThoughts(answer, marks)
	}
	answer = tailRE.ReplaceAllString(answer, "")
	if shell := shellRE.FindStringIndex(answer); shell != nil {
		answer = shutRE.ReplaceAllString(answer[shell[1]:], "")
	}
	if len(answer) != len(text) {
		answer = strings.TrimSpace(answer)
	}
	return answer, thinking
}

// dropThoughts gives what stands behind the last thought. A thought behind the answer is left out where it is whole;
// what follows a mark that opens one which is not closed is a thought.
func dropThoughts(text string, marks []mark) (answer string, thinking bool) {
	var outside strings.Builder // of thoughts, behind the last whose beginning is lost
	at, opened := 0, -1
	for _, one := range marks {
		switch {
		case one.closes && opened < 0:
			at = one.end
			outside.Reset()
		case one.closes:
			at, opened = one.end, -1
		case opened < 0 && opensThought(text[at:one.at]):
			opened = one.at
			outside.WriteString(text[at:one.at])
		}
	}
	answer = text[at:]
	if opened >= 0 {
		answer = text[at:opened]
	} else {
		outside.WriteString(answer)
	}
	if isBlank(answer) {
		answer = outside.String()
	}
	return answer, opened >= 0
}

// opensThought reports whether a mark behind a text opens a thought. One within a sentence is spoken of.
func opensThought(before string) bool {
	line := strings.TrimRightFunc(before, func(r rune) bool { return r != '\n' && unicode.IsSpace(r) })
	return line == "" || strings.HasSuffix(line, "\n") || !strings.HasSuffix(before, " ")
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

// marksOf finds the marks that are none of what is said.
func marksOf(text string) []mark {
	var out []mark
	for at := 0; ; {
		next := strings.IndexFunc(text[at:], beginsMark)
		if next < 0 {
			break
		}
		at += next
		size, closes := markAt(text[at:])
		if size > 0 && !isQuoted(text, at, at+size) {
			out = append(out, mark{at, at + size, closes})
		}
		at += max(size, 1)
	}
	if len(out) == 0 {
		return nil
	}
	values := valuesOf(text)
	kept := out[:0]
	for _, one := range out {
		for len(values) > 0 && values[0][1] <= one.at {
			values = values[1:]
		}
		if len(values) == 0 || one.at < values[0][0] {
			kept = append(kept, one)
		}
	}
	return kept
}

// beginsMark reports whether marks begin with a sign.
func beginsMark(sign rune) bool { return sign == '<' || sign == '[' || sign == '◁' }

// markAt gives the length of the mark that a text begins with; 0 where it begins with none.
func markAt(text string) (size int, closes bool) {
	text = text[:min(len(text), longestMark)]
	if found := closeRE.FindString(text); found != "" {
		return len(found), true
	}
	return len(openRE.FindString(text)), false
}

// isQuoted reports whether a mark is spoken of: it stands in quotes, or as code.
func isQuoted(text string, at, end int) bool {
	for _, pair := range []string{"``", `""`, "''", "“”", "‘’", "«»"} {
		runes := []rune(pair)
		if strings.HasSuffix(text[:at], string(runes[0])) && strings.HasPrefix(text[end:], string(runes[1])) {
			return true
		}
	}
	return false
}

// mostTries is how many brackets that begin no value are tried, and tryBytes how much is read of a text for each byte
// of it: a model writes what a document has it write.
const (
	mostTries = 64
	tryBytes  = 4
)

// valuesOf finds the objects and lists of JSON in a text: their places, in order.
func valuesOf(text string) (out [][2]int) {
	left := tryBytes*len(text) + 1<<16
	for at, tries := 0, 0; tries < mostTries && left > 0; {
		next := strings.IndexAny(text[at:], "{[")
		if next < 0 {
			break
		}
		at += next
		decoder := json.NewDecoder(strings.NewReader(text[at:]))
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if err != nil {
			left -= len(text) - at
			tries++
			at++
			continue
		}
		read := int(decoder.InputOffset())
		left -= read
		out = append(out, [2]int{at, at + read})
		at += read
	}
	return out
}
