package pipeline_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	randv2 "math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
	"github.com/unweaver/unweaver/internal/store/coordination"
	coordredis "github.com/unweaver/unweaver/internal/store/coordination/redis"
	recordsredis "github.com/unweaver/unweaver/internal/store/records/redis"
	"github.com/unweaver/unweaver/internal/store/vectors/milvus"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/redistest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// servedSite moves a site's stores to real servers: S3 and Milvus are those that the environment names, the two Redis
// are the test's own, as they are emptied amid a night. It skips, and says so, where a server is not to be had.
func servedSite(t *testing.T, s *site) (l *lives, forget func(context.Context) error) {
	for _, name := range []string{"UNWEAVER_TEST_S3", "UNWEAVER_TEST_MILVUS", "UNWEAVER_TEST_SERVERS"} {
		if os.Getenv(name) == "" {
			t.Skip(name + " is not set: make test-servers sets it")
		}
	}
	raw := make([]byte, 8)
	_, _ = rand.Read(raw)
	bucket := func(name, prefix string) blob.Store {
		store := must(s3.Open(t.Context(), s3.Config{
			Bucket: name, Prefix: prefix, Endpoint: os.Getenv("UNWEAVER_TEST_S3"), Region: "us-east-1", PathStyle: true,
			Setting: "stores.artifacts",
		}))(t)
		return store
	}
	artifacts := bucket("unweaver", "test/history-"+hex.EncodeToString(raw))
	vectors := must(milvus.Open(t.Context(), milvus.Config{URL: os.Getenv("UNWEAVER_TEST_MILVUS"), Index: "hnsw"}))(t)
	keptAt, _ := redistest.Start(t)
	lostAt, _ := redistest.Start(t)
	id := must(artifact.OpenStoreID(t.Context(), artifacts))(t)
	records := recordsredis.New(redistest.Open(t, "redis://"+keptAt))
	require.NoError(t, records.RecordOwner(t.Context(), id))
	s.Artifacts, s.Records, s.Vectors, s.StoreID = artifacts, records, vectors, id
	out := &lives{
		history: &history{site: s, files: map[string]string{}}, shop: &shop{sold: map[string]int{}},
		blobs: artifacts, records: records, vectors: vectors, staging: bucket("milvus", ""),
		// Redis loses what it knows with every process that dies: claims, control and budgets, what is in flight.
		coordination: func() coordination.Store { return coordredis.New(redistest.Empty(t, "redis://"+lostAt)) },
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		names, _ := vectors.List(ctx, "uw_"+core.Sum(id, s.spec.Index).Short(8)+"_")
		for _, name := range names {
			_ = vectors.Drop(ctx, name)
		}
		var keys []string
		for info, err := range artifacts.List(ctx, "", "") {
			if err == nil {
				keys = append(keys, info.Key)
			}
		}
		_ = artifact.DeleteAll(ctx, artifacts, keys)
		_ = vectors.Close()
	})
	kept := redistest.Raw(t, "redis://"+keptAt)
	return out, func(ctx context.Context) error { return kept.FlushDB(ctx).Err() }
}

// The history of nights over S3, Redis and Milvus, in whose processes die at random writes, those of bulk imports among
// them, while Redis forgets what coordinates them, and once the records: each night comes to what a build from nothing
// in memory comes to. Hashes, counts, and the bits of what bm25 answers are equal. Milvus sums products in an order of
// its own and its index is approximate: of methods that ask it the chunks are compared, and scores to 1 in 10,000.
func TestNightsOnRealServersComeToWhatABuildFromNothingComesTo(t *testing.T) {
	s := newSite(t, nil)
	l, forget := servedSite(t, s)
	h := l.history
	h.random = randv2.New(randv2.NewPCG(6, 5))
	h.spec.Chat = core.ChatModel{Provider: "openai", Model: "chat-0"}
	h.spec.Embedding = core.EmbedModel{Provider: "openai", Model: "embedder-0", Dimension: 8}
	h.spec.Gate.MaxRemoved, h.spec.Shortening.Threshold, h.spec.Chunking.MaxTokens = 1, 500, 200
	h.shard = 25 // Milvus takes seconds for each file that it imports
	for range 15 {
		h.add(t)
	}
	begun := time.Now()
	nights := longtest.Count(8, 12)
	deaths, imports, bound := 0, 0, 0
	for night := range nights {
		what := "documents"
		switch {
		case night == 0:
			what = "first"
		case night%5 == 3: // into new collections, which Milvus imports
			h.spec.Embedding.Model = fmt.Sprint("embedder-", night)
			what = h.spec.Embedding.Model
		case night%5 == 4:
			what = l.reconfigure()
		case night == 6:
			what = "nothing"
		case night == 7: // a Redis without its file came back
			what = "records lost"
			require.NoError(t, forget(t.Context()))
			h.change(t)
		default:
			h.change(t)
		}
		kills := h.random.IntN(3)
		if strings.HasPrefix(what, "embedder-") || night == 0 {
			imports, kills = imports+1, 0
			l.aimed = []int{1 + h.random.IntN(4), 1 + h.random.IntN(2)}
		}
		l.shop.most = 0
		out, killed := l.survive(t, kills)
		deaths, bound = deaths+killed, bound+killed*l.shop.most
		if what == "nothing" {
			require.True(t, out.planned.Unchanged, "night %d: nothing changed, and it was made: %+v", night, out.planned)
			continue
		}
		if out.planned.Unchanged {
			continue // it changed and changed back
		}
		fresh := h.freshSite(t)
		fresh.Models = (&shop{sold: map[string]int{}}).models
		want := fresh.night(t)
		sameGeneration(t, night, out.manifest, want.manifest)
		wholeVectors(t, h.site, out.manifest)
		sameRows(t, l, out.manifest)
		t.Logf("%.0f s: night %d: %s, %d deaths, %d splits", time.Since(begun).Seconds(), night, what, killed,
			len(out.manifest.Segments.Splits))
		if night%5 == 4 || night == nights-1 {
			nearAnswers(t, h.site, fresh, night, 20)
		}
	}
	again, all := l.shop.twice()
	t.Logf("%d nights, %d of them imported, %d deaths, %d amid an import, %d answers, %d of them paid for again "+
		"(at most %d were in flight)", nights, imports, deaths, l.inImports, all, again, bound)
	assert.True(t, again <= bound, "%d answers were paid for again, at most %d were in flight at deaths", again, bound)
	assert.True(t, deaths >= nights/2 && l.inImports >= imports,
		"%d deaths in %d nights, %d in %d imports: too few to prove anything", deaths, nights, l.inImports, imports)
}

// sameRows looks whether Milvus has each live row once.
func sameRows(t *testing.T, l *lives, manifest *core.Manifest) {
	for collection, want := range map[string]int64{
		manifest.Collections.Classes: manifest.Counts.Classes, manifest.Collections.Chunks: manifest.Counts.Windows,
	} {
		got, err := l.vectors.Count(t.Context(), collection)
		assert.True(t, err == nil && got >= want, "%s holds %d rows, %d are live (%v)", collection, got, want, err)
	}
}

// nearAnswers asks a site on real servers and one in memory questions by every method.
func nearAnswers(t *testing.T, got, want *site, night, questions int) {
	t.Helper()
	random := randv2.New(randv2.NewPCG(uint64(night), 9))
	have, other := openGeneration(t, got), openGeneration(t, want)
	defer have.Close()
	defer other.Close()
	for _, method := range retrievetest.ListPlain() {
		m := must(methods.Registry().Method(method))(t)
		exact := m.Spec().Needs.Embedding == retrieve.NoEmbedding
		bits, equal, found := 0, 0, 0
		for range questions {
			question := questionOf(random)
			first, second := answersOf(t, got, have, method, question), answersOf(t, want, other, method, question)
			found += len(first)
			if slices.Equal(first, second) {
				bits++
			}
			if alikeAnswers(first, second) {
				equal++
			} else if exact {
				t.Errorf("night %d, %s, %q:\n%+v\nwant\n%+v", night, method, question, first, second)
			}
		}
		t.Logf("night %d, %s: of %d questions %d have equal chunks and scores, %d of them to the bit", night, method,
			questions, equal, bits)
		switch {
		case exact && bits != questions:
			t.Errorf("night %d, %s: it asks no vectors, and %d of %d answers differ", night, method, questions-bits, questions)
		case equal < questions*9/10:
			t.Errorf("night %d, %s: %d of %d questions have equal chunks", night, method, equal, questions)
		case found == 0:
			t.Errorf("night %d, %s: nothing was found", night, method)
		}
	}
}

func alikeAnswers(got, want []scored) bool {
	return slices.EqualFunc(got, want, func(a, b scored) bool {
		return a.chunk == b.chunk && math.Abs(a.score-b.score) <= 1e-4*math.Abs(b.score)
	})
}
