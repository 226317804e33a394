package markup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/text/markup"
)

// Forms without an end are not looked for from each of their beginnings: 60 kB of them would take minutes.
func TestMarksThatNothingEndsTakeLittleTime(t *testing.T) {
	done := make(chan string)
	go func() {
		defer close(done)
		for _, form := range []string{"<!--", "![", "[![", "![a](", "[a](", "<!--\n", "[a]: <", "`", "**a ", "__a ", ":a",
			"<a "} {
			for _, end := range []string{"", "`", "x**", ")", "]"} {
				markup.List("x " + strings.Repeat(form, 60_000/len(form)) + end)
			}
			done <- form
		}
	}()
	last := "none"
	for limit := time.After(2 * time.Minute); ; {
		select {
		case form, more := <-done:
			if !more {
				return
			}
			last = form
		case <-limit:
			t.Fatalf("the form after %q takes more than two minutes", last)
		}
	}
}

// A long line with many marks has all of them.
func TestManyMarksAreAllHidden(t *testing.T) {
	line := strings.Repeat("**bold** and `code`, [a](b) ", 2000)
	assert.Equal(t, strings.TrimSpace(strings.Repeat("bold and code, a ", 2000)), markup.Text(line))
}

func TestMarksAreHidden(t *testing.T) {
	for content, want := range map[string]string{
		"a <!-- hidden --> b":                    "a b",
		"![picture](p.png) and [x](y), ![ open":  "and x, ![ open",
		"see [![badge](b.svg)](https://x.y) now": "see now",
		"<!-- over\ntwo lines -->text":           "text",
		"<!-- nothing ends it\n<!-- nor this":    "<!-- nothing ends it <!-- nor this",
		"**bold** and `code`":                    "bold and code",
	} {
		assert.Equal(t, want, markup.Text(content), content)
	}
}
