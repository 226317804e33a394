package extract_test

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// stored returns the results of the batches of shard 0, as far as they name files.
func stored(t testing.TB, store blob.Store, scratch string) func(context.Context, int) (extract.Result, error) {
	return func(_ context.Context, batch int) (extract.Result, error) {
		return extract.Result{
			Rows: path.Base(stagetest.Stored(t, store, extract.BatchKey(scratch, 0, batch))),
			Paid: path.Base(stagetest.Stored(t, store, extract.PaidKey(scratch, 0, batch))),
		}, nil
	}
}

// sealed extracts documents, answers by chunk text, and gives the mentions as "class chunk position surface".
func (b bench) sealed(
	parity bool,
	answers map[string]string,
	docs ...stagetest.Document,
) (extract.SealResult, []string) {
	in := b.in(&stagetest.Chat{Free: true, Answer: func(call model.Call) (model.Reply, error) {
		return model.Reply{Text: answers[call.Input]}, nil
	}}, docs...)
	stagetest.Must(extract.Run(b.Context(), in))
	var shown []int64
	res := stagetest.Must(extract.Seal(b.Context(), extract.SealIn{
		Spec: core.Spec{Index: "i", Parity: parity}, Artifacts: b.art, Scratch: scratch, Batches: 1,
		Batch: stored(b, b.art.Store, scratch), OnProgress: func(p core.Progress) { shown = append(shown, p.Done) },
	}))
	for i, done := range shown {
		assert.Equal(b, int64(64*(i+1)), done, "reported %v chunks", shown)
	}
	numbers := map[core.ID]int64{} // of the chunks, in their order
	for _, doc := range docs {
		for _, chunk := range doc.Chunks {
			numbers[core.ChunkID(doc.Key, chunk, 0)] = int64(len(numbers))
		}
	}
	var out []string
	last := ""
	for _, row := range stagetest.Read(b, b.art, b.art.SegmentKey(res.Kept.SHA256)) {
		m := stagetest.Must(rows.DecodeMention([]byte(row.Value)))
		assert.True(b, row.Key >= last, "mentions are not sorted by class")
		last = row.Key
		want := numbers[m.Chunk]
		assert.True(b, m.Number == want, "chunk %d of the shard has number %d", want, m.Number)
		text := fmt.Sprintf("%s#%d.%d %s: %s", m.Document, m.Ordinal, m.Position, m.Surface, m.Description)
		if m.Fallback {
			text += " (fallback)"
		}
		out = append(out, text)
	}
	return res, out
}

func sameSet(t *testing.T, got []string, want ...string) {
	t.Helper()
	left := map[string]int{}
	for _, line := range want {
		left[line]++
	}
	for _, line := range got {
		left[line]--
		assert.True(t, left[line] >= 0, "unexpected mention %q", line)
	}
	for line, n := range left {
		assert.True(t, n <= 0, "missing mention %q", line)
	}
}

func TestSealAddsATitleToEveryChunkThatDoesNotNameItItself(t *testing.T) {
	docs := []stagetest.Document{
		{Key: "a", Title: "The Harbour", Chunks: []string{"One. Two! Three? Four.", "More of it."}},
		{Key: "b", Title: "", Chunks: []string{"No title."}},
	}
	answers := map[string]string{
		"One. Two! Three? Four.": entities("Crane", "Crane"), "More of it.": entities("the harbour"),
		"No title.": entities("Crane"),
	}
	t.Run("with its first three sentences", func(t *testing.T) {
		res, got := newBench(t).sealed(false, answers, docs...)
		sameSet(
			t, got, "a#0.-1 The Harbour: One. Two! Three?", "a#0.0 Crane: About Crane.", "a#1.0 the harbour: About the harbour.",
			"b#0.0 Crane: About Crane.",
		)
		assert.True(t, res.Mentions == 4 && res.Chunks == 3 && res.Fallbacks == 0, "%+v", res)
	})
	t.Run("and none for parity", func(t *testing.T) {
		_, got := newBench(t).sealed(true, answers, docs...)
		for _, line := range got {
			assert.False(t, strings.Contains(line, ".-1 "), "a title mention: %s", line)
		}
		assert.Len(t, got, 3, "%q", got)
	})
}

func TestTheDescriptionOfATitleIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ chunk, want string }{
		"a long sentence":         {strings.Repeat("word ", 3000), strings.TrimSpace(strings.Repeat("word ", 120))},
		"spaces and line breaks":  {"One\n  two.\tThree.", "One two. Three."},
		"characters of two bytes": {strings.Repeat("é", 700), strings.Repeat("é", 600)},
	} {
		t.Run(name, func(t *testing.T) {
			doc := stagetest.Document{Key: "a", Title: "T", Chunks: []string{c.chunk}}
			_, got := newBench(t).sealed(false, map[string]string{c.chunk: entities()}, doc)
			assert.True(t, len(got) == 1 && got[0] == "a#0.-1 T: "+c.want, "got %.80q", got)
		})
	}
}

func TestMentionsOfAClassStandInChunkOrder(t *testing.T) {
	docs := stagetest.Numbered(300, "Text %d.")
	answers := map[string]string{}
	for _, doc := range docs {
		answers[doc.Chunks[0]] = entities("Same", "same")
	}
	res, got := newBench(t).sealed(false, answers, docs...)
	var same []string
	for _, line := range got {
		if strings.Contains(strings.ToLower(line), " same:") {
			same = append(same, line[:8])
		}
	}
	for i, line := range same {
		want := fmt.Sprintf("d%04d.tx", i/2)
		require.True(t, line == want, "mention %d is of %s, want %s", i, line, want)
	}
	assert.True(t, len(same) == 600 && res.Mentions == 900, "%d mentions of the class, %d in all", len(same), res.Mentions)
}

func TestSealKeepsFallbacksApartAndNamesTheChunk(t *testing.T) {
	doc := stagetest.Document{Key: "a", Title: "T", Chunks: []string{"Unreadable."}}
	res, got := newBench(t).sealed(false, map[string]string{"Unreadable.": "no"}, doc)
	id := core.ChunkID("a", "Unreadable.", 0).String()[:8]
	sameSet(t, got, "a#0.-1 T: Unreadable.", "a#0.0 T "+id+": Unreadable. (fallback)")
	assert.Equal(t, int64(1), res.Fallbacks, "%+v", res)
}

func TestSealPacksWhatItsShardPaidFor(t *testing.T) {
	b := newBench(t)
	chat := &stagetest.Chat{Answer: stagetest.Says(entities("X"))}
	in := b.in(chat, stagetest.Numbered(5, "Text %d.")...)
	stagetest.Must(extract.Run(t.Context(), in))
	sealIn := extract.SealIn{Artifacts: b.art, Scratch: scratch, Batches: 1, Paid: true, Ledger: in.Ledger}
	sealIn.Batch = stored(t, b.art.Store, scratch)
	first := stagetest.Must(extract.Seal(t.Context(), sealIn))
	second, err := extract.Seal(t.Context(), sealIn) // a repeated attempt
	stagetest.Ok(t, err)
	assert.True(t, first.Fresh && !second.Fresh && first.Extract == second.Extract, "%+v, then %+v", first, second)
	packs := 0
	for range b.art.Store.List(t.Context(), "ledger/extract/packs/", "") {
		packs++
	}
	assert.Equal(t, 1, packs)
	for info := range b.art.Store.List(t.Context(), "ledger/extract/loose/", "") {
		stagetest.Ok(t, b.art.Store.Delete(t.Context(), info.Key))
	}
	res := stagetest.Must(extract.Run(t.Context(), b.in(chat, stagetest.Numbered(5, "Text %d.")...)))
	assert.True(t, res.Progress.Hits.Extract == 5 && len(chat.Calls()) == 5,
		"the pack answers %d of 5; %d calls", res.Progress.Hits.Extract, len(chat.Calls()))
}

func TestSealOfABatchThatIsMissingFails(t *testing.T) {
	b := newBench(t)
	in := b.in(&stagetest.Chat{Free: true, Answer: stagetest.Says(entities("X"))}, stagetest.Numbered(1, "Text %d.")...)
	stagetest.Must(extract.Run(t.Context(), in))
	_, err := extract.Seal(t.Context(), extract.SealIn{
		Artifacts: b.art, Scratch: scratch, Batches: 2, Ledger: ledger.New(b.art.Store, b.claims),
		Batch: stored(t, b.art.Store, scratch),
	})
	assert.Error(t, err, "a shard without its second batch was sealed")
}

// A shard of a test, in batches of 16 chunks.
const (
	shardBatches = 40
	batchChunks  = 16
)

// extractShard extracts a shard near its store.
func extractShard(t *testing.T, near blob.Store, into string) {
	art := artifact.Index{Store: near, Name: "i"}
	text := stagetest.Chunks(t, art, into, 0, stagetest.Numbered(shardBatches*batchChunks, "Text %d.")...)
	book := ledger.New(near, coordmemory.NewClaims())
	for batch := range shardBatches {
		stagetest.Must(extract.Run(t.Context(), extract.In{
			Spec: core.Spec{Index: "i"}, Artifacts: art, Scratch: into, Gen: "g", Text: text,
			Shard: extract.Shard{To: shardBatches * batchChunks}, Batch: batch, From: batch * batchChunks,
			To: (batch + 1) * batchChunks, Chat: &stagetest.Chat{Answer: stagetest.Says(entities("Crane"))}, Ledger: book,
		}))
	}
}

// sealShard seals a shard of a store, whose batches are listed near it.
func sealShard(t *testing.T, store, near blob.Store, from string) extract.SealResult {
	result := stagetest.Must(extract.Seal(t.Context(), extract.SealIn{
		Spec: core.Spec{Index: "i"}, Artifacts: artifact.Index{Store: store, Name: "i"}, Scratch: from,
		Batches: shardBatches, Batch: stored(t, near, from), Paid: true, Ledger: ledger.New(store, coordmemory.NewClaims()),
	}))
	return result
}

func keysBelow(t *testing.T, store blob.Store, prefix string) []string {
	t.Helper()
	var keys []string
	for info, err := range store.List(t.Context(), prefix, "") {
		stagetest.Ok(t, err)
		keys = append(keys, info.Key)
	}
	return keys
}

func TestSealingADistantShardReadsNoLedgerEntryAgainAndTakesNoSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near := blobmemory.New()
		extractShard(t, near, scratch)
		requests := distance.New(15 * time.Millisecond)
		begin := time.Now()
		result := sealShard(t, distance.Blob(near, requests), near, scratch)
		passed, counted := time.Since(begin), requests.Take()
		assert.Zero(t, counted.Of("ledger/extract/loose"), "it read entries one by one")
		all := counted.Of("")
		assert.True(t, all <= 2*shardBatches+10, "%d requests", all)
		if counted.Chain > 12 || passed > time.Second { // of the clock of the test
			t.Errorf("a chain of %d requests", counted.Chain)
		}
		// The next night finds all of it in packs, and packs nothing again.
		stagetest.Ok(t, near.DeleteAll(t.Context(), keysBelow(t, near, "ledger/extract/loose/")))
		extractShard(t, near, scratch+"-next")
		assert.Equal(t, result.Extract.SHA256, sealShard(t, near, near, scratch+"-next").Extract.SHA256, "another extraction")
		packs, loose := keysBelow(t, near, "ledger/extract/packs/"), keysBelow(t, near, "ledger/extract/loose/")
		assert.True(t, len(packs) == 1 && len(loose) == 0, "packs %v, loose %v", packs, loose)
	})
}

// Keys of an index that adds nothing are what they were before an index could: nothing is paid for again. What changes
// an answer changes the key, and what does not does not.
// Promises: 150.
func TestKeysFollowWhatTheModelIsAsked(t *testing.T) {
	info := model.Info{Provider: "openai", Model: "m", Parameters: "p", Domain: "d", Paid: true}
	german := "Das Haus am Ufer ist alt und war nicht zu sehen, aber es stand da."
	english, parity := "Aspirin thins the blood.", core.Spec{Parity: true}
	for _, c := range []struct {
		spec              core.Spec
		text, key, prompt string
	}{
		{core.Spec{}, english, "506b5a8ceb66b7ba9cd5168996cb0b0bd787c09cec3ea723a68a15df82752cf8",
			"84ac921e1e6472dc351ef5d02bf74deef9787d50894843edbc06a5e4940f136b"},
		{core.Spec{}, german, "9de8737c4d6f32c47bd5315f46a70da7a271952f24eb1a05c7c3eed2014640b9",
			"8e4b2f33d39a021ba1bf6dd8453fe7416b7e4a339fafb3ffe1c4dc1d662839e1"},
		{parity, english, "dc2e6ae48ba9a1410469b581f5d7cb7ac8a59af8f1fa38f4dbeffbe82e53fa55",
			"be9a7aa4ec43c81e6c7c33332d7ffef41655f39f5d34d297de26ed5fb5aa18d8"},
	} {
		assert.Equal(t, c.key, extract.Key(info, c.spec, c.text).String())
		assert.Equal(t, c.prompt, extract.PromptDigest(c.spec, c.text).String())
	}
	seen := map[core.Digest]string{extract.Key(info, core.Spec{}, german): "nothing"}
	for name, own := range map[string]core.Extraction{
		"a type": {Types: []string{"Drug"}}, "two types": {Types: []string{"City", "Drug"}},
		"spelled":  {Types: []string{"drug"}},
		"guidance": {Guidance: "Drug"}, "examples": {Examples: "[]"}, "a language": {Types: []string{"Drug"}, Language: "fr"},
	} {
		spec := core.Spec{Extraction: &own}
		key := extract.Key(info, spec, german)
		assert.Equal(t, extract.VersionOf(spec, german), extract.PromptVersion(spec, german), "%s", name)
		assert.Empty(t, seen[key], "%s and %s have one key", name, seen[key])
		seen[key] = name
		spec.Extraction = &core.Extraction{Types: own.Types, Guidance: own.Guidance, Examples: own.Examples,
			Language: own.Language, Share: 1}
		assert.Equal(t, key, extract.Key(info, spec, german), "a share is in the key of %s", name)
		spec.Parity = true
		assert.Equal(t, extract.Key(info, parity, german), extract.Key(info, spec, german), "%s counts under parity", name)
	}
}

// One call asks for names, descriptions and types. A type that is none of the list, or no text, costs the entity its
// type alone; an index without types stores none.
func TestEntitiesHaveTheTypesOfTheIndex(t *testing.T) {
	answer := `{"entities":[{"name":"Aspirin","type":"DRUG","description":"A pill."},{"name":"Basel","type":"town",` +
		`"description":""},{"name":"Roche","type":["City"]},{"name":"Bonn","type":null},{"name":"Ulm","description":"x"},` +
		`{"name":"Köln","type":"none"},{"name":"Ulm","type":"City","description":"x y"}]}`
	for _, typed := range []bool{true, false} {
		b := newBench(t)
		chat := &stagetest.Chat{Answer: stagetest.Says(answer)}
		in := b.in(chat, stagetest.Document{Key: "a", Title: "T", Chunks: []string{"Aspirin in Basel."}})
		want := "Aspirin= Basel= Roche= Bonn= Ulm= Köln= "
		if typed {
			want = "Aspirin=Drug Basel= Roche= Bonn= Ulm=City Köln= "
			in.Spec.Extraction = &core.Extraction{
				Share: 1, Types: []string{"City", "Drug"}, Guidance: "Doses matter.", Examples: `[{"text":"Ulm"}]`,
			}
		}
		for range 2 { // the second is answered by the ledger
			stagetest.Must(extract.Run(t.Context(), in))
			got := ""
			for _, one := range b.extracted(in)[0].Entities {
				got += one.Name + "=" + one.Type + " "
			}
			assert.Equal(t, want, got)
		}
		calls := chat.Calls()
		assert.Len(t, calls, 1)
		for _, part := range []string{"types: City; Drug.", "Doses matter.", `[{"text":"Ulm"}]`, `"type":"..."`} {
			assert.Equal(t, typed, strings.Contains(calls[0].System, part), "%s in %s", part, calls[0].System)
		}
		schema := string(calls[0].Schema)
		assert.Equal(t, typed, strings.Contains(schema, `"enum":["City","Drug","none"]`), schema)
	}
}

// lookup is a ledger that has something of some keys.
type lookup func(key core.Digest) *ledger.Entry

func (l lookup) Get(_ context.Context, _ string, key core.Digest, _ int) (*ledger.Entry, error) {
	return l(key), nil
}

// What a passage was charged for is compared with the prompt that it was asked by.
func TestAPriceIsReckonedByThePromptOfEachPassage(t *testing.T) {
	info, text := model.Info{Provider: "openai", Model: "m", Paid: true}, "Rome is old."
	asked := core.Request{Types: []string{"Drug"}, Guidance: strings.Repeat("Doses matter. ", 99)}
	former := extract.Key(info, core.Spec{}, text)
	in := extract.CountIn{Model: info, Chunks: func(yield func(extract.Text, error) bool) {
		yield(extract.Text{Text: text, Tokens: 4}, nil)
	}, Ledger: lookup(func(key core.Digest) *ledger.Entry {
		return map[core.Digest]*ledger.Entry{former: {Value: []byte(`{"usage":{"prompt":9,"completion":9}}`)}}[key]
	})}
	before := stagetest.Must(extract.Count(t.Context(), in))
	in.Spec = in.Spec.WithRequest(asked)
	in.Chooser = extract.NewChooser(core.Asked{Request: asked, Earlier: []core.Request{{}}, Apply: core.ApplyNew},
		func(context.Context, core.ID) (rows.Extract, bool, error) {
			return rows.Extract{Key: former}, true, nil
		})
	after := stagetest.Must(extract.Count(t.Context(), in))
	assert.True(t, before.Hits == 1 && before.Measured.Reckoned > 0)
	assert.Equal(t, before, after)
}
