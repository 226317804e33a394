package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/starter/cli"
)

func TestTrendsShowEachNightWithBarsOfTheHighest(t *testing.T) {
	began := time.Date(2026, 3, 1, 2, 0, 0, 0, time.Local)
	fake := &fakeControl{trends: []runlog.Trends{{
		Index: "docs", Totals: runlog.Totals{
			Nights: 4, Published: 2, Held: 1, Cancelled: 1, Calls: 105, Tokens: 900, Cost: 5.25, Seconds: 190, Bytes: 3 << 20,
		},
		Nights: []core.Night{
			{
				Status: core.StatusCompleted, Published: true, Started: began, Chunks: 400, Share: 1, Calls: 100, Tokens: 800,
				Cost: 5, Currency: "EUR", Seconds: 125, Bytes: 3 << 20, Planned: &core.Missed{Cost: 0.25},
			},
			{
				Status: core.StatusHeld, Reason: "recall", Started: began.AddDate(0, 0, 1), Chunks: 410, Share: 0.01, Calls: 5,
				Cost: 0.25, Currency: "EUR", Seconds: 61, Letters: 2, Planned: &core.Missed{},
			},
			{Status: core.StatusCompleted, Unchanged: true, Started: began.AddDate(0, 0, 2), Currency: "EUR"},
			{
				Status: core.StatusCancelled, Started: began.AddDate(0, 0, 3), Currency: "EUR", Planned: &core.Missed{Calls: -0.7},
			},
		},
	}}}
	got := run(t, fake, "trends", "docs")
	contains(t, flat(got.out),
		"docs: 4 nights, 2 published, 0 unchanged, 1 held, 0 failed, 1 cancelled",
		"cancelled 0 ····· 0.0 % ····· 0 0 ····· 0.0000 EUR ····· 0s - 0 0 B",
		"2026-03-01 02:00:00 completed 400 █████ 100.0 % █████ 100 800 █████ 5.0000 EUR █████ 2m5s +25 % 0 3.1 MB",
		"held (recall) 410 █···· 1.0 % █···· 5 0 █···· 0.2500 EUR ██··· 1m1s in range 2 0 B",
		"unchanged 0 ····· 0.0 %", "total: 105 calls, 900 tokens, cost 5.2500 EUR, 3m10s, 3.1 MB written")
	assert.True(t, fake.asked[0] == "trends docs 30" && got.exit == cli.ExitDone, "%v %d", fake.asked, got.exit)
	list := decoded(t, run(t, fake, "trends", "--nights", "7", "--json").out)["trends"].([]any)
	if nights := list[0].(map[string]any)["nights"].([]any); len(nights) != 4 || fake.asked[1] != "trends  7" {
		t.Errorf("%v %v", list, fake.asked)
	}
	if got := run(t, fake, "trends", "--nights", "0"); got.exit != cli.ExitUsage ||
		!strings.Contains(got.err, "want 1 to 180") {
		t.Errorf("%+v", got)
	}
	contains(t, run(t, &fakeControl{}, "trends").out, "no build yet")
}
