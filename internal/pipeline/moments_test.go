package pipeline_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// What a night came to outlives its generation, in one small file.
func TestNightsAreKeptThoughTheirGenerationsAreCollected(t *testing.T) {
	s := newSite(t, sample(6))
	s.spec.Keep = 1
	s.night(t)
	s.write(t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
	s.night(t)
	s.night(t)
	index := artifact.Index{Store: s.Artifacts, Name: s.spec.Index}
	key := index.NightsKey()
	var nights core.Nights
	_, err := blob.ReadJSON(t.Context(), s.Artifacts, key, &nights)
	require.NoError(t, err)
	require.Len(t, nights.Nights, 3, "%+v", nights)
	first, second, third := nights.Nights[0], nights.Nights[1], nights.Nights[2]
	assert.True(t, first.Changed == 6 && first.Share == 1 && first.Bytes > 0 && first.Published, "the first: %+v", first)
	assert.True(t, second.Changed == 1 && second.Documents == 7 && second.Bytes > 0 && second.Bytes < first.Bytes,
		"the second: %+v", second)
	assert.True(t, third.Unchanged && third.Changed == 0 && third.Bytes == 0, "an unchanged one: %+v", third)
	_, err = blob.Write(t.Context(), s.Artifacts, key, []byte("{"), blob.Cond{})
	require.NoError(t, err)
	s.night(t)
	nights = core.Nights{}
	if _, err := blob.ReadJSON(t.Context(), s.Artifacts, key, &nights); err != nil || len(nights.Nights) != 1 {
		t.Errorf("after damage: %+v, %v", nights, err)
	}
}

func TestAReportHasItsCourseAndAText(t *testing.T) {
	s := newSite(t, sample(6))
	s.night(t)
	report := s.report(t)
	assert.True(t, len(report.Course) != 0 && report.Course[len(report.Course)-1].Share == 1, "course %+v", report.Course)
	index := artifact.Index{Store: s.Artifacts, Name: s.spec.Index}
	text, _, err := blob.Read(t.Context(), s.Artifacts, index.GenerationKey(report.Generation, "report.md"))
	assert.True(t, err == nil && strings.Contains(string(text), report.ContentHash), "%v: %s", err, text)
}

// What renews the lease notes how far the run is; many processes note as much as one does.
func TestTheCourseOfALongRunIsNotedOnceByAllProcesses(t *testing.T) {
	s := newSite(t, sample(1))
	job, _ := s.begin(t)
	synctest.Test(t, func(t *testing.T) {
		holder := run.Holder{Workflow: job.Holder.Workflow, Run: "run"}
		var runs []*upkeep.Run
		for range 3 {
			other := portsOfAnother(s.Ports) // another process
			work := upkeep.OpenBare(other, job, core.StageExtract, "")
			defer work.Close()
			runs = append(runs, work)
		}
		require.NoError(t, runs[0].BeginStage(t.Context(), holder, core.StageExtract, 1000))
		const minutes = 4
		for second := range minutes * 60 {
			if second%10 == 0 {
				runs[0].Progress.SetDone(int64(second))
				require.NoError(t, runs[0].Flush(t.Context()))
			}
			for _, work := range runs {
				require.NoError(t, work.Renew(t.Context()))
			}
			time.Sleep(time.Second)
		}
		noted, err := s.Coordination.ReadProgress(t.Context(), job.Name())
		require.NoError(t, err)
		var course []core.Moment
		require.NoError(t, json.Unmarshal(noted["run"], &course))
		if least, most := minutes*60/20, minutes*60/5; len(course) < least || len(course) > most {
			t.Errorf("%d moments in %d minutes, want %d to %d", len(course), minutes, least, most)
		}
		for i := 1; i < len(course); i++ {
			if course[i].Seconds-course[i-1].Seconds < 5 || course[i].Share < course[i-1].Share {
				t.Fatalf("moments %+v and %+v", course[i-1], course[i])
			}
		}
		require.NoError(t, runs[0].WriteReport(t.Context(), holder, run.Ending{Status: core.StatusPaused}))
		state, err := run.ReadState(context.Background(), s.Coordination, job.Name())
		assert.True(t, err == nil && len(state.Report.Course) >= len(course),
			"the report of a pause has %d moments: %v", len(state.Report.Course), err)
	})
}
