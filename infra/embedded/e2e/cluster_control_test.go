package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// storedWords gives the objects of a cluster's artifacts, the rows in them and the class records in which one of some
// words stands.
func storedWords(t *testing.T, c *cluster, words ...string) (where []string) {
	t.Helper()
	ctx, stores := t.Context(), c.ctl.Stores
	look := func(name string, raw []byte) {
		for _, word := range words {
			if bytes.Contains(bytes.ToLower(raw), []byte(word)) {
				where = append(where, name+": "+word)
				return
			}
		}
	}
	for info, err := range stores.Artifacts.List(ctx, "", "") {
		check(t, err)
		raw, _, err := blob.Read(ctx, stores.Artifacts, info.Key)
		check(t, err)
		look(info.Key, raw)
		for row, err := range artifact.ScanAll(ctx, stores.Artifacts, info.Key) {
			if err != nil {
				break // no row file
			}
			look(info.Key+" (row)", append(slices.Concat(row.Key, []byte(" ")), row.Value...))
		}
	}
	check(t, stores.Records.ScanRecords(ctx, stores.StoreID[:8]+":c:", func(keys []string) error {
		values, err := stores.Records.GetRecords(ctx, keys)
		for i, value := range values {
			look("record "+keys[i], value)
		}
		return err
	}))
	return where
}

// A worker that is killed in stage after stage of a purge, on real servers, leaves a purge that ends: nothing that is
// stored reports the document, and the index is what a build from nothing without it makes.
// Promises: 1, 2.
func TestAPurgeOnRealServersEndsThoughWorkersAreKilled(t *testing.T) {
	t.Parallel()
	want, _ := undisturbed(t)
	c := newCluster(t)
	server := serve(t, modeltest.Options{Shuffle: true})
	sp := clusterSpec(t, server)
	folder := copySample(t)
	const document = "letters/heron.md"
	text := "# Quastenberg\n\nMarlene Quastenberg paid the ferryman in opals. Carla Ruiz wrote about Zuckmayer Lane.\n"
	check(t, os.Mkdir(filepath.Join(folder, "letters"), 0o755))
	writeFile(t, filepath.Join(folder, filepath.FromSlash(document)), text)
	c.upload(folder)
	worker, base := c.worker(), c.replica()
	completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: sp})))
	writeFile(t, filepath.Join(folder, filepath.FromSlash(document)), strings.Replace(text, "opals", "pearls", 1))
	c.upload(folder)
	completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: sp})))
	answers(t, base, "k", question) // a replica holds the generation that goes
	words := []string{"quastenberg", "zuckmayer", "letters/heron"}
	if where := storedWords(t, c, words...); len(where) < 8 {
		t.Fatalf("the search finds too little of what is there: %q", where)
	}
	paid, begun := server.Stats().Chat, time.Now()
	purging := must(c.ctl.PurgeDocuments(t.Context(),
		control.PurgeRequest{Index: "k", Documents: []string{document}, Confirmed: true}))(t)
	deadly := []string{ // in which a purge has work to do
		core.StagePlan, core.StageReduce, core.StageSegment, core.StageVerify, core.StagePublish,
		core.StageCollect,
	}
	var killedIn []string
	for {
		st := must(c.ctl.ReadStatus(t.Context(), purging.Run.Run))(t)
		if core.IsTerminal(st.Status) || time.Since(begun) > 5*time.Minute {
			break
		}
		if n := len(st.Stages); n > 0 {
			if stage := st.Stages[n-1].Name; slices.Contains(deadly, stage) && !slices.Contains(killedIn, stage) {
				killedIn = append(killedIn, stage)
				worker.restart()
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	ended := completed(t, wait(t, c.ctl, purging.Run.Run))
	t.Logf("%.0f s; killed in %q", time.Since(begun).Seconds(), killedIn)
	assert.True(t, len(killedIn) >= 3 && slices.Contains(killedIn, core.StageCollect),
		"it was killed in %q alone", killedIn)
	stand := must(c.ctl.ListPurges(t.Context(), control.PurgesRequest{Index: "k"}))(t)
	assert.True(t, len(stand.Purges) == 1 && stand.Purges[0].State == core.PurgeDone, "%+v", stand.Purges)
	where := storedWords(t, c, words...)
	assert.True(t, len(where) == 0, "still stored in %q", where)
	same(t, ended, want)
	rows(t, c, ended)
	assert.Zero(t, server.Stats().Chat-paid, "the purge asked models")
}
