package sampling_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model/sampling"
)

func text(number, count int) string {
	var out strings.Builder
	for i := range 20 {
		if i < count {
			fmt.Fprintf(&out, "saw %c%s%c%s, ", 'A'+i, "arn", 'a'+i, letters(number))
		} else {
			fmt.Fprintf(&out, "saw %s, ", letters(number))
		}
	}
	return out.String()
}

func letters(number int) string {
	out := ""
	for ; number > 0; number /= 26 {
		out += string(rune('a' + number%26))
	}
	return out + "o"
}

// Texts with ever more names, so that their ranks are spread.
func texts() []string {
	out := make([]string, 600)
	for i := range out {
		out[i] = text(i, i%21)
	}
	return out
}

func TestALargerShareSendsAllThatASmallerOneSent(t *testing.T) {
	for _, text := range texts() {
		before := false
		for _, share := range []float64{0, 0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 1} {
			sent := sampling.ShouldSend(text, share)
			require.True(t, (!before || sent) && (share != 0 || !sent) && (share != 1 || sent), "%q, %v, %v", text, share, sent)
			before = sent
		}
	}
}

func TestOfCorporaOfAnyKindNeverMoreThanTwiceTheShareIsSent(t *testing.T) {
	for name, count := range map[string]int{"no name": 0, "some": 7, "many": 20} {
		for _, share := range []float64{0.1, 0.3, 0.5} {
			sent := 0
			const all = 400
			for i := range all {
				if sampling.ShouldSend(text(i, count), share) {
					sent++
				}
			}
			chance := 4 * math.Sqrt(all*share) // four deviations, of texts that are always the same
			if got := float64(sent); got > 2*share*all+chance || count == 7 && got < share*all/2-chance {
				t.Errorf("%s at %v: %d of %d", name, share, sent, all)
			}
		}
	}
}

func TestChunksOfManyNamesAreSentRather(t *testing.T) {
	poor, rich := 0, 0
	for i := range 300 {
		if sampling.ShouldSend(text(i, 2), 0.3) {
			poor++
		}
		if sampling.ShouldSend(text(i, 20), 0.3) {
			rich++
		}
	}
	assert.True(t, rich >= 2*poor && sampling.Rank(text(1, 2)) < sampling.Rank(text(1, 20)) && sampling.Rank("") == 0,
		"of 300 each, %d with few names and %d with many; ranks %v, %v", poor, rich, sampling.Rank(text(1, 2)),
		sampling.Rank(text(1, 20)))
}

// What is sent must not change with a release: every index with a share would be built otherwise, and pay.
func TestWhatThisVersionSends(t *testing.T) {
	got := ""
	for i, text := range texts()[:48] {
		if sampling.ShouldSend(text, 0.3) {
			got += fmt.Sprint(i, " ")
		}
	}
	assert.Equal(t, "6 9 11 15 16 17 20 29 30 33 35 36 37 39 40 44 ", got, "sent")
}
