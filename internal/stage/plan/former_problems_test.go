package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/plan"
)

// What was too large is tried again once the limits are others, and only then: an unchanged night stays one.
func TestADocumentThatWasTooLargeIsTriedAgainWhenTheLimitsChange(t *testing.T) {
	x := newIndex(t, four)
	x.night(map[string]fault.Code{"a.txt": fault.TooLarge, "z.txt": fault.Encrypted})
	res := x.night(nil)
	assert.True(t, res.Unchanged && res.Unreadable == 2, "the same limits: %+v", res)
	x.limits = document.DefaultLimits()
	if res := x.night(nil); !res.Unchanged {
		t.Errorf("the same limits, written out: %+v", res)
	}
	x.limits.Text = 1 << 40
	if res := x.night(map[string]fault.Code{"a.txt": fault.TooLarge}); res.Unchanged || res.Diff.Changed != 1 ||
		res.Unreadable != 1 {
		t.Errorf("other limits: %+v", res)
	}
	if res := x.night(nil); !res.Unchanged || res.Unreadable != 2 {
		t.Errorf("too large for those too: %+v", res)
	}
	x.parent.Limits = "" // of a release that did not record them
	if res := x.night(nil); res.Unchanged || res.Documents != 3 {
		t.Errorf("limits that are not known: %+v", res)
	}
}

// However many nights a problem stands, its cause and its advice are reported, once.
func TestAProblemThatStandsTellsItsCauseEveryNight(t *testing.T) {
	x := newIndex(t, four)
	x.night(nil)
	const cause = "read a.txt: it is encrypted: store it without a password"
	x.corpus.Set("a.txt", "sealed")
	x.causes = []core.Problem{{
		Code: string(fault.Encrypted), Object: "a.txt", Detail: cause + "; what was there before is kept, and is stale",
	}}
	x.night(map[string]fault.Code{"a.txt": fault.Encrypted})
	want := "as in the generation before: " + cause + "; what was there before is kept, and is stale"
	for night := range 4 {
		res := x.night(nil)
		assert.True(t, len(res.Problems) == 1 && res.Problems[0].Detail == want, "night %d: %+v", night, res.Problems)
		x.corpus.Set("z.txt", strings.Repeat("again ", night+1)) // the next is published, and carries the problem on
	}
	x.parent.Generation = "without a list"
	res := x.night(nil)
	assert.True(t, len(res.Problems) == 1 && strings.HasPrefix(res.Problems[0].Detail, "as in the generation before; "),
		"%+v", res.Problems)
}

// Pages that could not be read are reported as long as the document that has them stays, and keep no night busy.
func TestWhatIsMissingOfADocumentIsReportedWhileItStays(t *testing.T) {
	x := newIndex(t, map[string]string{"a.pdf": "%PDF"})
	x.missing = "page 2 has no text (scanned images?)"
	x.night(nil)
	x.part = true
	for range 2 {
		res := x.night(nil)
		want := core.Problem{
			Code: string(fault.PartsMissing), Object: "a.pdf", Detail: "as in the generation before: " + x.missing,
		}
		assert.True(t, res.Unchanged && len(res.Problems) == 1 && res.Problems[0] == want && x.problems()[0].Standing,
			"%+v", res)
	}
	x.corpus.Set("a.pdf", "%PDF again") // it is read again
	res := x.night(nil)
	assert.True(t, !res.Unchanged && len(res.Problems) == 0, "%+v", res)
}

// A hundred links do not push the one document that failed out of what is shown.
func TestDocumentsThatFailedAreShownFirst(t *testing.T) {
	x := newIndex(t, four)
	for i := range 150 {
		link := fmt.Sprintf("%03d", i)
		x.corpus.Set(link, "")
		x.corpus.Unlisted[link] = fault.NotFollowed.At("list", link)
	}
	x.corpus.Open["z.txt"] = denied("z.txt")
	res := x.night(nil)
	if len(res.Problems) != plan.MaxProblems || res.ProblemCount != 151 || res.Problems[0].Object != "z.txt" ||
		res.Problems[1].Object != "000" {
		t.Errorf("%d problems, %+v first", res.ProblemCount, res.Problems[0])
	}
}
