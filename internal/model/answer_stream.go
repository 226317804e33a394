package model

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// ErrLateThought is the error of a streamed reply that turns out to be a thought after some of it was given on.
var ErrLateThought = errors.New("the model's thoughts came as if they were its answer")

// Saying is TakeAnswer for a reply that comes piece by piece: what is said for sure is given on as it comes, the rest
// at the end. Without Open nothing is given on before the first mark, or the end: a template may have begun a thought
// that only its closing mark shows.
type Saying struct {
	Open bool                    // the model is known to begin its thoughts with a mark
	Give func(text string) error // is given what is said

	text     strings.Builder
	begin    int  // of the answer, as far as is known
	seen     int  // marks were looked for up to here
	thinking bool // at seen
	held     bool // until the end: what comes is no plain text
	given    strings.Builder
}

// Add takes in a piece.
func (s *Saying) Add(piece string) error {
	s.text.WriteString(piece)
	text := s.text.String()
	for s.seen < len(text) && !s.held {
		next := strings.IndexFunc(text[s.seen:], beginsMark)
		if next < 0 {
			s.seen = len(text)
			break
		}
		at := s.seen + next
		size, closes := markAt(text[at:])
		switch {
		case size == 0 && mayGrow(text[at:]), size > 0 && at+size == len(text): // what follows decides
			s.seen = at
			return s.emitText(text[s.begin:at])
		case size == 0, isQuoted(text, at, at+size):
			s.seen = at + max(size, 1)
			continue
		case closes && s.given.Len() > 0 && s.thinking:
			s.held = true
		case closes && s.given.Len() > 0:
			return ErrLateThought
		case closes:
			s.begin, s.thinking, s.Open = at+size, false, true
		case !s.thinking && opensThought(text[s.begin:at]):
			if err := s.emitText(text[s.begin:at]); err != nil {
				return err
			}
			s.thinking = true
		}
		s.seen = at + size
	}
	return s.emitText(text[s.begin:s.seen])
}

// tagNames are those of tags around thoughts and answers, and at the end of a turn.
var tagNames = []string{
	"think", "thought", "reasoning", "reflection", "scratchpad", "seed:think", "ant:thinking", "antthinking",
	"answer", "response", "solution", "s>",
}

// mayGrow reports whether a text that begins with the sign of a mark may become one.
func mayGrow(text string) bool {
	if len(text) >= longestMark {
		return false
	}
	within := strings.ToLower(strings.TrimLeft(text[1:], " \t/"))
	starts := func(mark string) bool { return strings.HasPrefix(mark, within) || strings.HasPrefix(within, mark) }
	switch {
	case strings.HasPrefix(text, "["):
		return strings.HasPrefix("think]", within)
	case strings.HasPrefix(text, "<|"):
		return true
	case strings.HasPrefix(text, "<"):
		return !strings.ContainsAny(text[1:], "<\n") &&
			slices.ContainsFunc(tagNames, starts) &&
			(!strings.HasSuffix(text, ">") || within == "s>")
	}
	return !strings.Contains(text, "▷")
}

// emitText gives on what is behind the text that was given; white space at its end waits for what follows.
func (s *Saying) emitText(text string) error {
	if s.thinking || !s.Open || s.held {
		return nil
	}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(channelName, text) { // it may become a channel's name
		return nil
	}
	if shellRE.MatchString(text) || plainChannel.MatchString(text) {
		s.held = true
		return nil
	}
	rest := text[min(len(text), s.given.Len()):]
	if rest == "" {
		return nil
	}
	s.given.WriteString(rest)
	return s.Give(rest)
}

// channelName begins a text of channels whose special tokens were dropped; a letter follows.
const channelName = "analysis"

var plainChannel = regexp.MustCompile(`^` + channelName + `\pL`)

// End gives on what is left, and returns the answer as TakeAnswer does.
func (s *Saying) End() (answer string, thinking bool, err error) {
	answer, thinking = TakeAnswer(s.text.String())
	answer = strings.TrimSpace(answer)
	rest, ok := strings.CutPrefix(answer, s.given.String())
	switch {
	case !ok:
		return answer, thinking, ErrLateThought
	case rest != "":
		err = s.Give(rest)
	}
	return answer, thinking, err
}

// Text returns all that came, thoughts included.
func (s *Saying) Text() string { return s.text.String() }

// HasOpeningMark says of a whole reply whether its thoughts, if it has any, begin with a mark.
func HasOpeningMark(text string) bool {
	opened := false
	for _, one := range marksOf(text) {
		if one.closes && !opened {
			return false
		}
		opened = !one.closes
	}
	return true
}
